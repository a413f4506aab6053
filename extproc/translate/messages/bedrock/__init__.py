"""The messages API in Amazon Bedrock's Converse API."""
