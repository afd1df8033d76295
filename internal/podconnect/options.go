package podconnect

import (
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// convert sets a field to the values of a parameter, if the query has it.
func convert[V any](query url.Values, name string, into *V, by func(*[]string, *V) error) error {
	values := query[name]
	if len(values) == 0 {
		return nil
	}
	return by(&values, into)
}

// text, boolean, number and timestamp convert the values of a parameter, of which the first counts.
func text(values *[]string, into *string) error {
	return runtime.Convert_Slice_string_To_string(values, into, nil)
}

func boolean(values *[]string, into *bool) error {
	return runtime.Convert_Slice_string_To_bool(values, into, nil)
}

func number(values *[]string, into **int64) error {
	return runtime.Convert_Slice_string_To_Pointer_int64(values, into, nil)
}

func timestamp(values *[]string, into **metav1.Time) error {
	return metav1.Convert_Slice_string_To_Pointer_v1_Time(values, into, nil)
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// LogOptions returns the options of a request for a log, with their defaults. It ignores unknown parameters.
//
// Upstream: pkg/apis/core/v1 Convert_url_Values_To_v1_PodLogOptions, SetDefaults_PodLogOptions (v1.36).
func LogOptions(query url.Values) (*corev1.PodLogOptions, error) {
	o, stream := &corev1.PodLogOptions{}, corev1.LogStreamAll
	err := firstError(
		convert(query, "container", &o.Container, text),
		convert(query, "follow", &o.Follow, boolean),
		convert(query, "previous", &o.Previous, boolean),
		convert(query, "sinceSeconds", &o.SinceSeconds, number),
		convert(query, "sinceTime", &o.SinceTime, timestamp),
		convert(query, "timestamps", &o.Timestamps, boolean),
		convert(query, "tailLines", &o.TailLines, number),
		convert(query, "limitBytes", &o.LimitBytes, number),
		convert(query, "insecureSkipTLSVerifyBackend", &o.InsecureSkipTLSVerifyBackend, boolean),
		convert(query, "stream", &stream, text),
	)
	o.Stream = ptr.To(stream)
	return o, err
}

// logStreams are the valid values of the parameter stream.
var logStreams = []string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}

// ValidateLogOptions returns the errors of options that LogOptions returned.
//
// Upstream: pkg/apis/core/validation ValidatePodLogOptions (v1.36).
func ValidateLogOptions(o *corev1.PodLogOptions) field.ErrorList {
	const notPositive = "must be greater than 0"
	var all field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		all = append(all, field.Invalid(field.NewPath("tailLines"), *o.TailLines, validation.IsNegativeErrorMsg))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		all = append(all, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, notPositive))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		all = append(all, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		all = append(all, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, notPositive))
	}
	switch stream := *o.Stream; stream {
	case corev1.LogStreamAll:
	default:
		all = append(all, field.NotSupported(field.NewPath("stream"), stream, logStreams))
		fallthrough
	case corev1.LogStreamStdout, corev1.LogStreamStderr:
		if o.TailLines != nil {
			all = append(all, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
		}
	}
	return all
}

// LogQuery returns the query with which an API server asks a kubelet for a log.
//
// Upstream: pkg/registry/core/pod LogLocation (v1.36).
func LogQuery(o *corev1.PodLogOptions) url.Values {
	query := url.Values{"stream": {*o.Stream}}
	for name, set := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if set {
			query.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			query.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		query.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	return query
}

// ExecOptions returns the options of a request to execute a command. It ignores unknown parameters.
//
// Upstream: pkg/apis/core/v1 Convert_url_Values_To_v1_PodExecOptions (v1.36).
func ExecOptions(query url.Values) (*corev1.PodExecOptions, error) {
	o := &corev1.PodExecOptions{Command: query["command"]}
	err := firstError(
		convert(query, "container", &o.Container, text),
		convert(query, "stdin", &o.Stdin, boolean),
		convert(query, "stdout", &o.Stdout, boolean),
		convert(query, "stderr", &o.Stderr, boolean),
		convert(query, "tty", &o.TTY, boolean),
	)
	return o, err
}

// ExecQuery returns the query with which an API server asks a kubelet to execute a command. Its parameters have other
// names than those of a client.
//
// Upstream: pkg/registry/core/pod streamParams (v1.36).
func ExecQuery(o *corev1.PodExecOptions) url.Values {
	query := url.Values{}
	for name, set := range map[string]bool{
		corev1.ExecStdinParam: o.Stdin, corev1.ExecStdoutParam: o.Stdout, corev1.ExecStderrParam: o.Stderr, corev1.ExecTTYParam: o.TTY,
	} {
		if set {
			query.Set(name, "1")
		}
	}
	if len(o.Command) > 0 {
		query[corev1.ExecCommandParam] = o.Command
	}
	return query
}

// KubeletExecOptions returns the options of a query as ExecQuery returns it. A terminal has no separate stderr.
//
// Upstream: k8s.io/cri-streaming/pkg/streaming/remotecommand NewOptions (v1.36).
func KubeletExecOptions(query url.Values) *corev1.PodExecOptions {
	set := func(name string) bool { return query.Get(name) == "1" }
	tty := set(corev1.ExecTTYParam)
	return &corev1.PodExecOptions{
		Command: query[corev1.ExecCommandParam], TTY: tty,
		Stdin: set(corev1.ExecStdinParam), Stdout: set(corev1.ExecStdoutParam), Stderr: set(corev1.ExecStderrParam) && !tty,
	}
}
