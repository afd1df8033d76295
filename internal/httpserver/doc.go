// Package httpserver is how volsim's HTTP servers serve, and how they end: streams are
// told to, requests in flight get a moment, and then all connections are closed. What is
// served, to whom and where is for who calls.
package httpserver
