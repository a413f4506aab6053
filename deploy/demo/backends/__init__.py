"""``extproc demo --backends``: one conversation, seven backend schemas, and what each of them gets to see of it."""
