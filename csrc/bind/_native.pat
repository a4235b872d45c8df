_native\.(xla_\w+):
    \1: object

_native\.(\w+\.)?__dlpack_c_exchange_api__:
    __dlpack_c_exchange_api__: object
