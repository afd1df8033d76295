package scenario_test

import (
	"testing"

	"github.com/volsim/volsim/explore/scenario"
)

func TestEndInWords(t *testing.T) {
	for want, end := range map[string]scenario.Outcome{
		"empty": {},
		"1 attachment, 2 claims Bound, 1 pod, 3 pods Running": {"attachment": 1, "claim Bound": 2, "pod": 1, "pod Running": 3},
	} {
		if got := end.String(); got != want {
			t.Errorf("%v is %q, want %q", map[string]int(end), got, want)
		}
	}
}
