"""Chat completions for backends that speak another API than the client (contract, chat completions).

``translator`` holds what is the same for all of them, the life of one attempt; a dialect per backend schema says how
a request is built and how an answer is read.
"""
