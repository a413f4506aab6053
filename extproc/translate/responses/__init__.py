"""Requests of OpenAI's responses API."""
