package scenario_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/scenario"
)

const goneWhileUsed = `# The claim goes while its pod is being created.
parts: pvcontroller, pvcprotection
rules: I1, I2
user alice
  create volume disk 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  create pod web data on=node-1
user bob
  wait claim data Bound
  delete claim data
`

func TestRunEndsAtRest(t *testing.T) {
	s, err := scenario.Parse("gone", goneWhileUsed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.End.String(); r.Failure != nil || got != "1 pod Pending, 1 volume Released" {
		t.Errorf("ended with %s, %v\n%s", got, r.Failure, r.Trace.Text())
	}
}

func TestTextParsesBack(t *testing.T) {
	text := goneWhileUsed + "schedule\n  14 hold: pvcprotection/cache pods\n  20 event: crash pvcontroller\nviolates: I28\n"
	s, err := scenario.Parse("gone", text)
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != text {
		t.Errorf("written again:\n%s\nwant\n%s", s, text)
	}
}

// A world of no parts is told from one of all parts.
func TestNoPartsParseBack(t *testing.T) {
	s := scenario.Scenario{Parts: []string{}, Users: []scenario.User{{Name: "alice"}}}
	read, err := scenario.Parse("none", s.String())
	if err != nil || read.Parts == nil || len(read.Parts) > 0 {
		t.Errorf("written\n%sread with parts %v, %v, want none", s.String(), read.Parts, err)
	}
}

func TestParseErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"parts: a\n":      "no user",
		"user a\n  fly\n": "line 2",
		"user a\n  create claim c 1Gi colour=red\n": "option colour",
		"user a\n  create claim c much\n":           "size",
		"user a\n  create claim c\n":                "want 1 words",
		"  create claim c 1Gi\n":                    "stands under no user",
		"weather: fine\n":                           "weather",
		"rules: I99\n":                              "I99",
		"faults: conflict\n":                        "conflict",
		"nodes: none\n":                             "none",
	} {
		if s, err := scenario.Parse("s", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v and %v, want an error with %q", text, s, err, want)
		}
	}
}
