package csiserver

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

func TestServiceAccountTokensAreRedacted(t *testing.T) {
	request := &csi.NodePublishVolumeRequest{
		VolumeId:      "vol-1",
		VolumeContext: map[string]string{tokensKey: `{"":{"token":"eyJhbGciOi"}}`, "kind": "fast"},
		Secrets:       map[string]string{"key": "hunter2"},
	}
	got := text(request)
	for _, secret := range []string{"eyJhbGciOi", "hunter2"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s found in %s", secret, got)
		}
	}
	for _, public := range []string{tokensKey, "fast", "vol-1", `"key"`} {
		if !strings.Contains(got, public) {
			t.Errorf("%s missing in %s", public, got)
		}
	}
	if request.GetSecrets()["key"] != "hunter2" {
		t.Error("the request was modified")
	}
}
