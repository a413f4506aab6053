"""Chat completions on the Messages API, first-party, on Vertex AI and on Bedrock (contract, chat 11 to 13)."""
