package attacher

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// An attachment that is patched with its changes is the other one.
func TestChangesMakeTheOther(t *testing.T) {
	entries := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "1", "2"}))
	failure := rapid.Custom(func(t *rapid.T) *storagev1.VolumeError {
		if rapid.Bool().Draw(t, "no error") {
			return nil
		}
		e := &storagev1.VolumeError{
			Message: rapid.SampledFrom([]string{"", "no", "never"}).Draw(t, "message"),
			Time:    metav1.NewTime(time.Unix(rapid.Int64Range(1, 3).Draw(t, "time"), 0)),
		}
		if code := rapid.Int32Range(0, 2).Draw(t, "code"); code > 0 {
			e.ErrorCode = &code
		}
		return e
	})
	attachment := rapid.Custom(func(t *rapid.T) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{
				Name: "va", Annotations: entries.Draw(t, "annotations"),
				Finalizers: rapid.SliceOfN(rapid.SampledFrom([]string{"x/1", "x/2"}), 0, 2).Draw(t, "finalizers"),
			},
			Status: storagev1.VolumeAttachmentStatus{
				Attached: rapid.Bool().Draw(t, "attached"), AttachmentMetadata: entries.Draw(t, "metadata"),
				AttachError: failure.Draw(t, "attach error"), DetachError: failure.Draw(t, "detach error"),
			},
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		was, want := attachment.Draw(t, "was"), attachment.Draw(t, "is")
		patched, err := jsonpatch.MergePatch(mustMarshal(was), mustMarshal(attachmentChanges(was, want)))
		if err != nil {
			t.Fatal(err)
		}
		var got storagev1.VolumeAttachment
		if err := json.Unmarshal(patched, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(mustMarshal(want)), string(mustMarshal(&got))); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}
