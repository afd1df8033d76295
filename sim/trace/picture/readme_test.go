package picture_test

import (
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim/trace/picture"
)

// The picture in README.md shows the failure that the explorer finds if the claim protection relies on its
// cache.
func TestPictureOfARace(t *testing.T) {
	s := inBook(t, "claim-deleted-while-pod-starts")
	s.Rules, s.Interceptors = []string{"I28"}, trusting()
	report, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds})
	if err != nil || report.Failure == nil {
		t.Fatalf("%+v, %v", report, err)
	}
	f := report.Failure
	o := scenario.Picture(f.Scenario, f.Result)
	o.Title = "A race, found by the explorer: the finalizer of a claim is removed while a pod uses it"
	golden(t, "../../../../docs/picture-of-a-race.svg", string(picture.SpaceTime(f.Result.Trace.Records(), o).SVG()))
}
