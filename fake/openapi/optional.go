package openapi

// required tells whether a field must be there.
func required(model, field string, omitEmpty bool) bool { return !omitEmpty }
