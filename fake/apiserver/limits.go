package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// slots is a counting semaphore that does not block.
type slots struct {
	max int64
	n   atomic.Int64
}

// acquire takes a slot. release returns it and may be called more than once. The error is 429 Too
// Many Requests.
func (s *slots) acquire() (release func(), err error) {
	if s.n.Add(1) > s.max {
		s.n.Add(-1)
		return nil, apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)
	}
	return sync.OnceFunc(func() { s.n.Add(-1) }), nil
}

// readBody reads the request's body up to the maximum length.
func (r *request) readBody() ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, r.h.bodyMax+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, context.DeadlineExceeded
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	case int64(len(data)) > r.h.bodyMax:
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", r.h.bodyMax))
	}
	return data, nil
}
