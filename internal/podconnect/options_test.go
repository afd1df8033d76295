package podconnect_test

import (
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/podconnect"
	"github.com/volsim/volsim/internal/testcheck"
)

func query(t *testing.T, text string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(text)
	testcheck.NoError(t, err)
	return q
}

// TestLogOptions reads options of a client, writes them for the kubelet, and reads them again.
func TestLogOptions(t *testing.T) {
	all := corev1.LogStreamAll
	since := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for _, tt := range []struct {
		query, kubelet string
		want           corev1.PodLogOptions
	}{
		{"", "stream=All", corev1.PodLogOptions{Stream: &all}},
		{"container=a&unknown=1", "stream=All", corev1.PodLogOptions{Container: "a", Stream: &all}},
		{
			"follow=true&previous=1&timestamps", "follow=true&previous=true&stream=All&timestamps=true",
			corev1.PodLogOptions{Follow: true, Previous: true, Timestamps: true, Stream: &all},
		},
		{"follow=false&previous=0", "stream=All", corev1.PodLogOptions{Stream: &all}},
		{
			"tailLines=3&limitBytes=9&sinceSeconds=7&stream=Stderr", "limitBytes=9&sinceSeconds=7&stream=Stderr&tailLines=3",
			corev1.PodLogOptions{TailLines: ptr.To[int64](3), LimitBytes: ptr.To[int64](9), SinceSeconds: ptr.To[int64](7), Stream: ptr.To("Stderr")},
		},
		{
			"sinceTime=2026-01-02T03:04:05Z", "sinceTime=2026-01-02T03%3A04%3A05Z&stream=All",
			corev1.PodLogOptions{SinceTime: &since, Stream: &all},
		},
	} {
		o, err := podconnect.LogOptions(query(t, tt.query))
		testcheck.NoError(t, err)
		testcheck.Equal(t, tt.query, tt.want, *o)
		testcheck.Equal(t, "query of "+tt.query, tt.kubelet, podconnect.LogQuery(o).Encode())
		again, err := podconnect.LogOptions(podconnect.LogQuery(o))
		testcheck.NoError(t, err)
		again.Container = o.Container // it is in the path
		testcheck.Equal(t, tt.query+" at the kubelet", *o, *again)
	}
}

// TestBadLogOptions has the errors of options, of their syntax and of their values.
func TestBadLogOptions(t *testing.T) {
	const exclusive = "[]: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"
	for _, tt := range []struct{ query, want string }{
		{"tailLines=x", `strconv.ParseInt: parsing "x": invalid syntax`},
		{"sinceTime=yesterday", `parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"`},
		{"tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"},
		{"tailLines=0", ""},
		{"limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"},
		{"sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"},
		{
			"sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z",
			"[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
		},
		{"stream=stdout", `stream: Unsupported value: "stdout": supported values: "All", "Stderr", "Stdout"`},
		{"stream=Stdout&tailLines=1", exclusive},
		{"stream=Stdout", ""},
	} {
		o, err := podconnect.LogOptions(query(t, tt.query))
		if err == nil && len(podconnect.ValidateLogOptions(o)) > 0 {
			err = podconnect.ValidateLogOptions(o).ToAggregate()
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		testcheck.Equal(t, tt.query, tt.want, got)
	}
}

// TestExecOptions reads options of a client, writes them for the kubelet, and reads them there.
func TestExecOptions(t *testing.T) {
	for _, tt := range []struct {
		query, kubelet string
		want           corev1.PodExecOptions // the kubelet's
	}{
		{"command=sh&command=-c&command=a+b&stdout=true", "command=sh&command=-c&command=a+b&output=1", corev1.PodExecOptions{
			Command: []string{"sh", "-c", "a b"}, Stdout: true,
		}},
		{"stdin=1&stdout=1&stderr=1", "error=1&input=1&output=1", corev1.PodExecOptions{Stdin: true, Stdout: true, Stderr: true}},
		{"stderr=1&tty=1", "error=1&tty=1", corev1.PodExecOptions{TTY: true}},
		{"stdin=false&container=a", "", corev1.PodExecOptions{}},
	} {
		o, err := podconnect.ExecOptions(query(t, tt.query))
		testcheck.NoError(t, err)
		testcheck.Equal(t, "query of "+tt.query, tt.kubelet, podconnect.ExecQuery(o).Encode())
		testcheck.Equal(t, tt.query+" at the kubelet", tt.want, *podconnect.KubeletExecOptions(podconnect.ExecQuery(o)))
	}
	testcheck.Equal(t, "container", "a", testcheck.Must(podconnect.ExecOptions(query(t, "container=a"))).Container)
}
