"""All Temporal client code: the API, activities, the worker and the command line speak to Temporal through it."""
