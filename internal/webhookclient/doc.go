// Package webhookclient finds the programs behind webhooks: those of conversion and those of admission.
//
// A webhook with a URL is called there. A reference to a Service is resolved to the Service's external name or to its
// first ready endpoint, unless the server has a handler for it (fake.Config.Services), which answers in memory.
package webhookclient
