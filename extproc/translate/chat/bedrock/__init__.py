"""Chat completions on Bedrock's Converse and ConverseStream (contract, chat 8)."""
