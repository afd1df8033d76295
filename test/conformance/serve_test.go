package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/sim"
)

// A served is a live cluster with its API served over HTTPS, and a log of refused requests.
type served struct {
	cluster  *cluster.Cluster
	listener *apiserver.Listener
	log      *answerLog

	mu      sync.Mutex
	waiting []chan struct{} // guarded by mu: notified of each commit
}

// serve starts a cluster on the array and serves its API. Close it after use.
func serve() (*served, error) { return serveCluster(cluster.Config{Devices: cluster.Array}) }

// serveCluster starts a cluster and serves its API. Close it after use.
func serveCluster(cfg cluster.Config) (*served, error) {
	cfg.API.RBAC = true
	c, err := cluster.New(cfg)
	if err != nil {
		return nil, err
	}
	crd.Serve(c.Server())
	s := &served{cluster: c, log: &answerLog{}}
	c.Server().OnCommit(func(fake.Commit) { s.notify() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s.listener, err = apiserver.Listen(apiserver.ListenConfig{
		Token:   c.Server().AuthenticateToken,
		Handler: s.log.wrap(apiserver.NewHandler(c.Server(), apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return c.Host().ExternalCaller() }})),
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

func (s *served) close() error { return errors.Join(s.listener.Close(), s.cluster.Close()) }

// changes returns a channel that receives a value after commits.
func (s *served) changes() <-chan struct{} {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, c)
	return c
}

func (s *served) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.waiting {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// An answerLog records the refused requests of a handler.
type answerLog struct {
	mu  sync.Mutex
	all []answer // guarded by mu
}

// An answer is a request and its response.
type answer struct {
	method, path string
	code         int
	body         string // first part of the body
}

// wrap wraps h and records the requests that it refuses.
func (l *answerLog) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tap := &tap{ResponseWriter: w}
		h.ServeHTTP(tap, r)
		if tap.code < http.StatusBadRequest {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, answer{r.Method, r.URL.Path, tap.code, tap.body.String()})
	})
}

func (l *answerLog) refused() []answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]answer(nil), l.all...)
}

// A tap is a ResponseWriter that records the response.
type tap struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (t *tap) WriteHeader(code int) {
	t.code = code
	t.ResponseWriter.WriteHeader(code)
}

func (t *tap) Write(p []byte) (int, error) {
	const bodyMax = 1000
	if t.code >= http.StatusBadRequest && t.body.Len() < bodyMax {
		t.body.Write(p)
	}
	return t.ResponseWriter.Write(p)
}

// Unwrap allows flushing.
func (t *tap) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// admin returns a client that does not use HTTP.
func (s *served) admin() *fake.Clientset {
	return s.cluster.Server().Client(s.cluster.Host().ExternalCaller())
}
