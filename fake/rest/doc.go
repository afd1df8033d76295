// Package rest is the API server by HTTP.
package rest
