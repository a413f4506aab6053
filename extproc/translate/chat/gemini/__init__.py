"""Chat completions on Gemini at Vertex AI (contract, chat 9 and 10)."""
