package apiserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// direct is a caller whose calls take effect at once, at the start of the simulated time.
var direct = testworld.ImmediateCaller(func() time.Time { return sim.Epoch })

func newServer() *fake.Server {
	return fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
}

// transportCase is a transport by which requests reach a server.
type transportCase struct {
	name string
	open func(t *testing.T, s *fake.Server) *clientrest.Config
}

// transports returns the transports: in memory and by loopback.
func transports() []transportCase {
	return []transportCase{
		{"memory", func(_ *testing.T, s *fake.Server) *clientrest.Config { return apiserver.NewConfig(s, direct) }},
		{"loopback", func(t *testing.T, s *fake.Server) *clientrest.Config {
			srv := httptest.NewServer(newHandler(s))
			t.Cleanup(srv.Close)
			return &clientrest.Config{Host: srv.URL, QPS: -1, Proxy: http.ProxyURL(nil)}
		}},
	}
}

func newHandler(s *fake.Server) http.Handler {
	return apiserver.NewHandler(s, apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return direct }})
}

// world is a server with a typed client that uses one of the transports.
type world struct {
	server *fake.Server
	config *clientrest.Config
	client *kubernetes.Clientset
}

// eachWay runs a test with each transport, with JSON and with protobuf.
func eachWay(t *testing.T, test func(t *testing.T, w world)) {
	t.Helper()
	for _, by := range transports() {
		for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			t.Run(by.name+"/"+media[strings.LastIndexAny(media, "/.")+1:], func(t *testing.T) {
				s := newServer()
				cfg := by.open(t, s)
				typed := clientrest.CopyConfig(cfg)
				typed.ContentType = media
				typed.AcceptContentTypes = media + ",application/json"
				test(t, world{server: s, config: cfg, client: kubernetes.NewForConfigOrDie(typed)})
			})
		}
	}
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "db"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "b"}}},
	}
}

// reply is an answer to a raw request.
type reply struct {
	code   int
	header http.Header
	body   string
}

// status decodes the Status in the body.
func (r reply) status(t *testing.T) metav1.Status {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal([]byte(r.body), &s); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return s
}

// ask makes a raw request. headers are pairs of a name and a value.
func ask(ctx context.Context, h http.Handler, method, target, body string, headers ...string) reply {
	req := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	out, _ := io.ReadAll(w.Body)
	return reply{w.Code, w.Header(), string(out)}
}

// askEvents is like ask for a watch, which it ends after a number of events. Their number is
// that of the answer's writes.
func askEvents(t *testing.T, h http.Handler, events int, target, accept string) reply {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	req.Header.Set("Accept", accept)
	w := &endingRecorder{ResponseRecorder: httptest.NewRecorder(), writes: events, end: end}
	h.ServeHTTP(w, req)
	return reply{w.Code, w.Header(), w.Body.String()}
}

// An endingRecorder calls end after a number of writes.
type endingRecorder struct {
	*httptest.ResponseRecorder
	writes int
	end    func()
}

func (r *endingRecorder) Write(p []byte) (int, error) {
	n, err := r.ResponseRecorder.Write(p)
	if r.writes--; r.writes == 0 {
		r.end()
	}
	return n, err
}

func itoa(n int) string { return strconv.Itoa(n) }

// objectUID returns the UID of an object.
func objectUID(t *testing.T, body string) string {
	t.Helper()
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatal(err)
	}
	return string(o.UID)
}
