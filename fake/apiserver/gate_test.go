package apiserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// turnstile is a sim.Gate that admits everything except deliveries. It admits a limited number of
// those.
type turnstile struct {
	sim.Caller
	turns <-chan struct{}
}

func (g turnstile) CallContext(ctx context.Context, action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if action.Kind == trace.KindDeliver {
		select {
		case _, ok := <-g.turns:
			if !ok {
				return trace.Outcome{Err: errors.New("over")}
			}
		case <-ctx.Done():
			return trace.Outcome{Err: ctx.Err()}
		}
	}
	return effect()
}

// TestAGateHoldsEventsBack has two claims to deliver, by HTTP and in memory. The first arrives
// without the second, and the watch ends when the gate admits no more.
func TestAGateHoldsEventsBack(t *testing.T) {
	for _, way := range []string{"http", "memory"} {
		t.Run(way, func(t *testing.T) {
			turns := make(chan struct{})
			server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
			gate := turnstile{sim.DirectCaller(), turns}
			cfg := apiserver.NewConfig(server, gate)
			if way == "http" {
				over := httptest.NewServer(apiserver.NewHandler(server,
					apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return gate }}))
				defer over.Close()
				cfg.Host, cfg.Transport = over.URL, nil
			}
			client := kubernetes.NewForConfigOrDie(cfg)
			from := server.Revision()
			for _, name := range []string{"a", "b"} {
				testcheck.Must(client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), newClaim(name), metav1.CreateOptions{}))
			}
			body, err := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/persistentvolumeclaims").
				Param("watch", "1").Param("resourceVersion", fmt.Sprint(from)).SetHeader("Accept",
				"application/json").Stream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			lines := bufio.NewScanner(body)
			for _, name := range []string{"a", "b"} {
				go func() { turns <- struct{}{} }()
				if !lines.Scan() || !strings.Contains(lines.Text(), `"name":"`+name+`"`) {
					t.Errorf("want claim %s, got %s", name, lines.Text())
				}
			}
			testcheck.Must(client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(),
				newClaim("c"), metav1.CreateOptions{}))
			close(turns)
			if lines.Scan() {
				t.Errorf("past a closed gate: %s", lines.Text())
			}
		})
	}
}
