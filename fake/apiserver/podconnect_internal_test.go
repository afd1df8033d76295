package apiserver

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// A logKubelet is the kubelet of each node, a handler that is not package internal/kubeletserver's.
type logKubelet struct{ http.HandlerFunc }

func (k logKubelet) Kubelet(string) http.Handler { return k.HandlerFunc }

const logPath = "/api/v1/namespaces/default/pods/web/log"

// limitedLog runs a test in a bubble with a pod whose kubelet has a handler.
func limitedLog(t *testing.T, kubelet http.HandlerFunc, test func(w *limitedWorld)) {
	t.Helper()
	limitedBy(t, fake.Config{Kubelets: logKubelet{kubelet}}, HandlerConfig{}, func(w *limitedWorld) {
		testcheck.NoError(w.T, w.server.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
			w.server.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{
				NodeName: "n", Containers: []corev1.Container{{Name: "app", Image: "a"}},
			}}))
		test(w)
	})
}

// TestKubeletAnswersForALog has the answers of a kubelet, and those of the API server, over a connection and in memory.
func TestKubeletAnswersForALog(t *testing.T) {
	status := func(message, rest string) string {
		return `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"` + message + `",` + rest + "}\n"
	}
	answers := map[int]string{
		http.StatusOK:                  "",
		http.StatusInternalServerError: status("Internal error occurred: text", `"reason":"InternalError","details":{"causes":[{"message":"text"}]},"code":500`),
		http.StatusBadRequest:          status("text", `"reason":"BadRequest","code":400`),
		http.StatusNotFound: status("the server could not find the requested resource ( pods/log web)",
			`"reason":"NotFound","details":{"name":"web","kind":"pods/log"},"code":404`),
	}
	for code, want := range answers {
		limitedLog(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("X-Kubelet", "n")
			if code != http.StatusOK {
				w.WriteHeader(code)
				w.WriteHeader(http.StatusOK) // it has no effect
			}
			_, _ = io.WriteString(w, "te")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "xt")
			if got := r.URL.String(); got != "/containerLogs/default/web/app?limitBytes=9&stream=All" || r.Header.Get("Authorization") != "" {
				t.Errorf("the kubelet was asked %s with %v", got, r.Header)
			}
		}, func(w *limitedWorld) {
			if want == "" {
				want = "text"
			}
			media := map[bool]string{true: "text/plain", false: mediaJSON}[code == http.StatusOK]
			check := func(way string, resp *http.Response) {
				testcheck.Equal(w.T, way+": body", want, string(testcheck.Must(io.ReadAll(resp.Body))))
				got := []string{strconv.Itoa(resp.StatusCode), resp.Header.Get("Content-Type"), resp.Header.Get("X-Kubelet"), resp.Header.Get("Cache-Control")}
				testcheck.Equal(w.T, way+": code and headers", []string{strconv.Itoa(code), media, "", "no-cache, private"}, got)
			}
			c := w.send("GET " + logPath + "?limitBytes=9 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n")
			check("connection", testcheck.Must(http.ReadResponse(bufio.NewReader(c), nil)))
			testcheck.NoError(w.T, c.Close())
			r := testcheck.Must(http.NewRequestWithContext(w.Context(), http.MethodGet, logPath+"?limitBytes=9", nil))
			check("memory", testcheck.Must(transport{w.handler}.RoundTrip(r)))
		})
	}
}

// TestIdleLogIsKept follows a log that has a line each hour, by each version of HTTP.
func TestIdleLogIsKept(t *testing.T) {
	lines := func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		for range 3 {
			time.Sleep(time.Hour) // of the bubble
			_, _ = io.WriteString(w, "line\n")
			_ = http.NewResponseController(w).Flush()
		}
	}
	begin := func(t *testing.T, test func(w *limitedWorld)) { limitedLog(t, lines, test) }
	onVersions(t, begin, func(w *limitedWorld, get func(path string) *http.Response) {
		resp := get(logPath + "?follow=true")
		defer resp.Body.Close()
		testcheck.Equal(w.T, "log", "line\nline\nline\n", string(testcheck.Must(io.ReadAll(resp.Body))))
	})
}

// TestClientThatDoesNotReadALogIsCutOff: the kubelet's write fails after a minute.
func TestClientThatDoesNotReadALogIsCutOff(t *testing.T) {
	var failed time.Duration
	limitedLog(t, func(w http.ResponseWriter, _ *http.Request) {
		begun := time.Now()
		part := []byte(strings.Repeat("x", 1<<10))
		for {
			if _, err := w.Write(part); err != nil {
				failed = time.Since(begun)
				return
			}
		}
	}, func(w *limitedWorld) {
		c := w.send("GET " + logPath + "?follow=true HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := testcheck.Must(http.ReadResponse(bufio.NewReaderSize(c, 16), nil))
		testcheck.Equal(w.T, "status", http.StatusOK, resp.StatusCode)
		time.Sleep(3 * time.Minute) // of the bubble
		synctest.Wait()
		testcheck.Equal(w.T, "failed after", stallMax, failed.Round(time.Second))
		testcheck.NoError(w.T, c.Close())
	})
}
