package facts_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/facts"
	"github.com/volsim/volsim/sim"
)

func newServer() *fake.Server {
	s := fake.NewServer(fake.Config{Now: time.Now, TrackManagedFields: true})
	crd.Serve(s)
	return s
}

// timeout ends a fact that waits for an event that does not come.
const timeout = 20 * time.Second

// clients are the clients of our server. Each fact has its own server, except over HTTPS. min is the
// least number of facts that a client must support.
var clients = []struct {
	name string
	min  int
	of   func(t *testing.T) facts.Client
}{
	{"typed", 350, func(*testing.T) facts.Client { return facts.TypedClient(newServer().Client(sim.DirectCaller())) }},
	{"untyped", 450, func(*testing.T) facts.Client { return facts.UntypedClient(newServer().Client(sim.DirectCaller())) }},
	{"memory", 560, func(t *testing.T) facts.Client { return over(t, apiserver.NewConfig(newServer(), sim.DirectCaller())) }},
}

func over(t *testing.T, cfg *clientrest.Config) facts.Client {
	t.Helper()
	transport, err := clientrest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return facts.HTTPClient(cfg.Host, transport, false)
}

func all(t *testing.T) []facts.Fact {
	t.Helper()
	all, err := facts.All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFacts(t *testing.T) {
	for _, test := range clients {
		t.Run(test.name, func(t *testing.T) {
			checked := 0
			for _, f := range all(t) {
				t.Run(f.String(), func(t *testing.T) {
					w := test.of(t)
					if f.NeedsCustomResources() {
						install(t, w)
					}
					check(t, w, f)
					checked++
				})
			}
			if checked < test.min {
				t.Errorf("%d facts checked, want at least %d", checked, test.min)
			}
		})
	}
}

// TestFactsOverHTTPS checks all facts against one server, since they do not interfere.
func TestFactsOverHTTPS(t *testing.T) {
	handler := apiserver.NewHandler(newServer(),
		apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }})
	listener, err := apiserver.Listen(apiserver.ListenConfig{Handler: handler})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	w := over(t, listener.Config())
	install(t, w)
	for _, f := range all(t) {
		t.Run(f.String(), func(t *testing.T) { check(t, w, f) })
	}
}

func install(t *testing.T, client facts.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := facts.Install(ctx, client); errors.Is(err, facts.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// check checks a fact. It skips the test if the client does not support it.
func check(t *testing.T, client facts.Client, f facts.Fact) {
	t.Helper()
	if why := f.SkipReason(client.Traits()); why != "" {
		t.Skip(why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err := facts.Check(ctx, client, f)
	if errors.Is(err, facts.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Error(err)
	}
}
