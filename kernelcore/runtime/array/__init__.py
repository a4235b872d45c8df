"""The data array: layout, views, annotations, creation, memory of other libraries."""
