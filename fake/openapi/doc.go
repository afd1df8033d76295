// Package openapi describes the API in OpenAPI documents.
package openapi
