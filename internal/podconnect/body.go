package podconnect

import "io"

// A BodyTaker is an http.ResponseWriter that reads a body itself, and later. A kubelet that answers with a log passes it
// a reader instead of writing: so no goroutine has to write while another one reads. The body must be closed.
type BodyTaker interface {
	TakeBody(body io.ReadCloser)
}
