package apirequest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/volsim/volsim/internal/apirequest"
)

func TestInvalidRequestsAreErrors(t *testing.T) {
	for act, want := range map[string]string{
		"GET /api/v1/pods":                    `method "GET": want a request that writes: POST, PUT, PATCH, DELETE`,
		"post /api/v1/pods":                   `method "post"`,
		"POST":                                `path ""`,
		"POST pods":                           `path "pods"`,
		"POST /api/v1/pods%zz":                `path "/api/v1/pods%zz"`,
		"POST /api/v1/pods name=web":          `unexpected "name=web"`,
		"POST /api/v1/pods as=":               `unexpected "as="`,
		"POST /api/v1/pods {":                 "the body is not valid JSON",
		"POST /api/v1/pods \"unfinished":      "want JSON or a quoted string",
		"PATCH /api/v1/namespaces/default {}": "want type=merge",
	} {
		if _, err := apirequest.Parse(act); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", act, err, want)
		}
	}
}

func TestRequestOfAClientBecomesAnAct(t *testing.T) {
	for _, c := range []struct{ method, agent, media, body, want string }{
		{"POST", "kubectl/v1.36 (linux)", "application/json", "{\n  \"a\": \"b  c\"\n}\n", `as=kubectl {"a":"b  c"}`},
		{"POST", "my tool/1", "application/json; charset=utf-8", "[1]", `as=my%20tool [1]`},
		{"PATCH", "", "application/apply-patch+yaml", "a: b\n", `type=apply "a: b\n"`},
		{"PATCH", "", "application/strategic-merge-patch+json", "{}", `type=strategic {}`},
		{"PUT", "", "application/vnd.kubernetes.protobuf", "k8s\x00\xff", `type=protobuf "k8s\x00\xff"`},
		{"POST", "", "application/json", `"text"`, `"\"text\""`},
		{"POST", "", "application/json", "{\"a\":\"\u0085\"}", `"{\"a\":\"\u0085\"}"`},
		{"DELETE", "", "", "", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "https://127.0.0.1:1/api/v1/namespaces/a/pods/b?x=1%202", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", c.agent)
		r.Header.Set("Content-Type", c.media)
		want := strings.TrimSpace(c.method + " /api/v1/namespaces/a/pods/b?x=1%202 " + c.want)
		text := apirequest.Of(r, []byte(c.body)).String()
		if text != want {
			t.Errorf("got %s, want %s", text, want)
		}
		if act, err := apirequest.Parse(text); err != nil || act.String() != text {
			t.Errorf("%s parses as %s, %v", text, act, err)
		}
	}
}
