_native\.(xla_\w+):
    \1: object
