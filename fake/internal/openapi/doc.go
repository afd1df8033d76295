// Package openapi makes the OpenAPI documents of an API server, versions 2 and 3, of what it serves.
//
// The definitions of built-in kinds are made by reflection from the Go types of k8s.io/api: fields and what is required by
// their json tags, descriptions by SwaggerDoc, patch strategies by their tags, list and map types and defaults by the schema
// that client-go's apply configurations have. Those of custom resources are what their CustomKind says. Each resource has
// the operations that it has upstream.
//
// All is built when it is first asked for, and then kept. The same resources make the same documents.
//
// What stands only in comments of upstream's source is in tables here: optional.go, enums.json, descriptions.json.
//
// Differs: query parameters have no descriptions. A deletion is said to be answered with a Status. There are no operations
// for deprecated watches, logs, proxies and what else is not served, nor documents for the lists of groups.
//
// Upstream: k8s.io/kube-openapi/pkg/builder, pkg/builder3, pkg/generators; k8s.io/apiextensions-apiserver/pkg/controller/openapi.
package openapi
