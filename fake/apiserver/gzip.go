package apiserver

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

// gzipBytesMin is the size from which an answer is compressed if the client accepts gzip.
const gzipBytesMin = 128 << 10

// compress compresses a large answer if the client accepts gzip.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters deferredResponseWriter.
func (a *answer) compress(req *http.Request) {
	if len(a.body) <= gzipBytesMin || !acceptsGzip(req) {
		return
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(a.body) // a write to a buffer does not fail
	_ = w.Close()
	a.body = b.Bytes()
	a.header.Set("Content-Encoding", "gzip")
	a.header.Add("Vary", "Accept-Encoding")
}

func acceptsGzip(req *http.Request) bool {
	for token := range strings.SplitSeq(req.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(token) == "gzip" {
			return true
		}
	}
	return false
}
