// Package apirequest is the text form of API requests that write.
//
//	request, err := apirequest.Parse(`DELETE /api/v1/namespaces/default/pods/web as=kubectl`)
//	if err == nil {
//		err = request.Send(ctx, server, caller)
//	}
//
// The form is METHOD PATH [as=CLIENT] [type=TYPE] [BODY]. It keeps what matters for the effect of a
// request: the path with its query, the name of the client, which is the default manager of the
// fields, and the body with its media type. A body is JSON in one line, or a quoted string.
//
// # What it does not do
//
// Requests that read, watches, exec and other streams have no effect that could be repeated.
package apirequest
