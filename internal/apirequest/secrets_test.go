package apirequest_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/volsim/volsim/internal/apirequest"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestSecretsAreRedacted: the values of secrets, in each form of a body. What has no secret stays as it is.
func TestSecretsAreRedacted(t *testing.T) {
	const (
		secrets = "/api/v1/namespaces/a/secrets"
		masked  = "UkVEQUNURUQ=" // base64 of REDACTED
	)
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("MARKER")}}
	protobuf := string(testcheck.Must(runtime.Encode(encoder, secret)))
	for _, tt := range []struct{ name, method, path, media, body, want string }{
		{"create", "POST", secrets, "", `{"kind":"Secret","data":{"k":"MARKER"},"stringData":{"l":"MARKER"}}`, `{"data":{"k":"` + masked + `"},"kind":"Secret","stringData":{"l":"REDACTED"}}`},
		{"without kind", "POST", secrets, "", `{"data":{"k":"MARKER"}}`, `{"data":{"k":"` + masked + `"}}`},
		{
			"applied before", "PUT", secrets + "/s", "", `{"metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"MARKER"}},"type":"t"}`,
			`{"metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"REDACTED"}},"type":"t"}`,
		},
		{"merge patch", "PATCH", secrets + "/s", "application/merge-patch+json", `{"data":{"k":"MARKER","l":null}}`, `type=merge {"data":{"k":"` + masked + `","l":null}}`},
		{"apply", "PATCH", secrets + "/s", "application/apply-patch+yaml", "kind: Secret\nstringData: {k: MARKER}\n", `type=apply {"kind":"Secret","stringData":{"k":"REDACTED"}}`},
		{
			"JSON patch", "PATCH", secrets + "/s", "application/json-patch+json",
			`[{"op":"add","path":"/data/k","value":"MARKER"},{"op":"add","path":"/data","value":{"k":"MARKER"}},{"op":"add","path":"/stringData/k","value":"MARKER"},{"op":"add","path":"/metadata/labels/a","value":"b"},{"op":"remove","path":"/data/l"}]`,
			`type=json [{"op":"add","path":"/data/k","value":"` + masked + `"},{"op":"add","path":"/data","value":{"k":"` + masked + `"}},{"op":"add","path":"/stringData/k","value":"REDACTED"},{"op":"add","path":"/metadata/labels/a","value":"b"},{"op":"remove","path":"/data/l"}]`,
		},
		{"protobuf", "POST", secrets, "application/vnd.kubernetes.protobuf", protobuf, `{"apiVersion":"v1","data":{"k":"` + masked + `"},"kind":"Secret","metadata":{"name":"s"}}`},
		{"broken", "POST", secrets, "", `{"data":{"k":"MARKER"`, ""},
		{"broken protobuf", "POST", secrets, "application/vnd.kubernetes.protobuf", "k8s\x00MARKER", "type=protobuf"},
		{"a scalar", "POST", secrets, "", `"MARKER"`, ""},
		{"data of a wrong type", "POST", secrets, "", `{"data":"MARKER"}`, `{"data":{}}`},
		{"token review", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", "", `{"spec":{"token":"MARKER"}}`, `{"spec":{"token":"REDACTED"}}`},
		{"deletion", "DELETE", secrets + "/s", "", "", ""},
		{"another kind", "POST", "/api/v1/namespaces/a/configmaps", "", `{"kind":"ConfigMap","data":{"Secret":"x"},"n":12345678901234567890}`, `{"kind":"ConfigMap","data":{"Secret":"x"},"n":12345678901234567890}`},
	} {
		r := testcheck.Must(http.NewRequestWithContext(t.Context(), tt.method, "https://a"+tt.path, nil))
		r.Header.Set("Content-Type", tt.media)
		got := apirequest.Of(r, []byte(tt.body)).WithoutSecrets().String()
		testcheck.Equal(t, tt.name, strings.TrimSpace(tt.method+" "+tt.path+" "+tt.want), got)
		if _, err := apirequest.Parse(got); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if strings.Contains(strconv.Quote(got), "MARKER") {
			t.Errorf("%s: the secret is in %s", tt.name, got)
		}
	}
}
