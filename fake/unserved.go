package fake

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const notFoundMsg = "the server could not find the requested resource"

// notFound returns the error about a resource that the server lacks.
func notFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: notFoundMsg, Details: &metav1.StatusDetails{},
	}}
}

// unservedClient returns client-go's clientset over a transport that answers notFound to everything
// without I/O. It is created once.
var unservedClient = sync.OnceValue(func() kubernetes.Interface {
	c, err := kubernetes.NewForConfigAndClient(
		&rest.Config{Host: "http://fake.invalid", QPS: -1},
		&http.Client{Transport: unservedTransport{}},
	)
	if err != nil {
		panic(err) // the config is a constant
	}
	return c
})

// unservedTransport is a transport that answers notFound.
type unservedTransport struct{}

// RoundTrip implements http.RoundTripper.
func (unservedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	status := notFound().(apierrors.APIStatus).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "404 Not Found", StatusCode: http.StatusNotFound,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(strings.NewReader(string(body))),
		ContentLength: int64(len(body)),
		Request:       req,
	}, nil
}
