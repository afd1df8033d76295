package fake

import (
	"errors"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// secretContents are the parts of an error of a patch that show values of the patch, or of the patched object.
var secretContents = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`Invalid value: "(\\.|[^"\\])*"`), `Invalid value: "<secret contents redacted>"`},
	{regexp.MustCompile(`(expected [a-z ]+), got [^\n]*`), "$1, got <secret contents redacted>"}, // structured-merge-diff
	{regexp.MustCompile("`[^`\n]*`"), "`<secret contents redacted>`"},                            // yaml
	{regexp.MustCompile(`is missing in '[^\n]*'`), "is missing in '<secret contents redacted>'"},
}

// isSecret reports whether objects of the resource are confidential.
func (r ResourceClient) isSecret() bool { return r.kind.gvk.Group == "" && r.kind.gvk.Kind == "Secret" }

// withoutContents returns the error of a patch of a Secret without the contents of the Secret and the patch. Errors
// are in the trace and in the audit log.
//
// Differs: the real server shows them.
func withoutContents(err error) error {
	var known *apierrors.StatusError
	if !errors.As(err, &known) {
		return err
	}
	out := known.ErrStatus.DeepCopy()
	redact := func(text *string) {
		for _, c := range secretContents {
			*text = c.pattern.ReplaceAllString(*text, c.shown)
		}
	}
	redact(&out.Message)
	if out.Details != nil {
		for i := range out.Details.Causes {
			redact(&out.Details.Causes[i].Message)
		}
	}
	return &apierrors.StatusError{ErrStatus: *out}
}
