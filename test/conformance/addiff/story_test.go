package addiff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// story is a history that shows a difference that is there on purpose.
type story struct {
	what    string
	history history
	want    []string // the lines that one world has in the end and the other has not: "-" upstream's, "+" ours
}

func run(pod, node string, pause pause, disks ...string) step {
	return step{act: runPod{pod, node, disks}, pause: pause}
}

func then(act act, pause pause) step { return step{act: act, pause: pause} }

// stories have one at least for each of deliberates, and others of what is not drawn.
var stories = []story{
	{
		what: handleWithSeparator,
		history: history{
			run("p1", "n1", rest, "odd"),
			then(endPod{"p1", isDeleted}, rest),
		},
		want: []string{
			"- attachment odd@n1: by disk.example.com, attached",
			"- calls odd: attach n1",
			"+ calls odd: attach n1, detach n1",
		},
	},
	{
		what: doubted,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(dropAttachment{"rwo1", "n1"}, rest),
		},
		want: []string{
			`+ event about p1#1: Warning FailedAttachVolume: AttachVolume.Attach failed for volume "rwo1" : volume attachment is being deleted`,
		},
	},
	{
		what: unreported,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(turn{"detach", hangs}, short),
			then(dropAttachment{"rwo1", "n1"}, rest),
		},
		want: []string{
			"- reported rwo1@n1",
			`+ event about p1#1: Warning FailedAttachVolume: AttachVolume.Attach failed for volume "rwo1" : volume attachment is being deleted`,
		},
	},
	{
		what: doubtedWhileInUse,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(kubelet{"n1", isHanging}, short),
			then(endPod{"p1", isDeleted}, short),
			run("p2", "n2", rest, "rwo1"),
			then(dropAttachment{"rwo1", "n1"}, rest),
		},
		want: []string{
			"- attachment rwo1@n2: by disk.example.com, attached",
			"- calls rwo1: attach n1, attach n2",
			`- event about p2#1: Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "rwo1" `,
			"- reported rwo1@n2",
			"+ calls rwo1: attach n1",
		},
	},
	{
		what: notInUse,
		history: history{
			then(kubelet{"n1", isDown}, short),
			then(turn{"attach", errs}, short),
			run("p1", "n1", rest, "rwo1"),
			then(endPod{"p1", isDeleted}, rest),
		},
		want: []string{
			"- attachment rwo1@n1: by disk.example.com, the array refuses",
			"- calls rwo1: attach n1",
			"+ calls rwo1: attach n1, detach n1",
		},
	},
	{
		what: goneNode,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(dropNode{"n1"}, rest),
			run("p2", "n1", rest, "rwo2"),
		},
		want: []string{
			"- attachment rwo2@n1: by disk.example.com, attached",
			"- calls rwo2: attach n1",
			`- event about p2#1: Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "rwo2" `,
		},
	},
	{
		what: goneNodesPod,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(dropNode{"n1"}, rest),
			run("p2", "n1", rest, "rwo1"),
			run("p3", "n2", rest, "rwo1"),
		},
		want: []string{
			`- event about p3#1: Warning FailedAttachVolume: Multi-Attach error for volume "rwo1" Volume is already used by pod(s) p1, p2`,
			`+ event about p3#1: Warning FailedAttachVolume: Multi-Attach error for volume "rwo1" Volume is already used by pod(s) p1`,
		},
	},
	{
		what: elsewhere,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(turn{"detach", errs}, short),
			then(endPod{"p1", isDeleted}, short),
			run("p2", "n2", rest, "rwo1"),
		},
		want: []string{
			"- attachment rwo1@n2: by disk.example.com, attached",
			"- calls rwo1: attach n1, detach n1, attach n2",
			`- event about p2#1: Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "rwo1" `,
			"- reported rwo1@n2",
			"+ calls rwo1: attach n1, detach n1",
			`+ event about p2#1: Warning FailedAttachVolume: Multi-Attach error for volume "rwo1" Volume is already exclusively attached to one node and can't be attached to another`,
		},
	},
	// attachdetach/attach.go runDetach: upstream takes a refusal for a failure, and then attaches the volume elsewhere.
	{
		what: "a refused detach changes nothing",
		history: history{
			then(kubelet{"n1", isDown}, short),
			run("p1", "n1", rest, "rwo1"),
			then(before{"patch/status nodes", inUse{"n1", "rwo1"}}, short),
			then(endPod{"p1", isDeleted}, rest),
			run("p2", "n2", rest, "rwo1"),
		},
		want: []string{
			"- attachment rwo1@n2: by disk.example.com, attached",
			"- calls rwo1: attach n1, attach n2",
			`- event about p2#1: Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "rwo1" `,
			"- reported rwo1@n2",
			"+ calls rwo1: attach n1",
			`+ event about p2#1: Warning FailedAttachVolume: Multi-Attach error for volume "rwo1" Volume is already exclusively attached to one node and can't be attached to another`,
			"+ reported rwo1@n1",
		},
	},
	// attachdetach/attach.go verifySafe.
	{
		what: "the node is looked at also before a detach is forced",
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(kubelet{"n1", isHanging}, short),
			then(ready{"n1", corev1.ConditionFalse}, short),
			then(endPod{"p1", isDeleted}, rest),
			then(before{"patch/status nodes", ready{"n1", corev1.ConditionTrue}}, long),
		},
		want: []string{
			"- calls rwo1: attach n1, detach n1",
			"+ attachment rwo1@n1: by disk.example.com, attached",
			"+ calls rwo1: attach n1",
			"+ reported rwo1@n1",
		},
	},
	// attachdetach/attach.go detach.
	{
		what: "a volume that is wanted again meanwhile stays",
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(before{"patch/status nodes", runPod{"p2", "n1", []string{"rwo1"}}}, short),
			then(endPod{"p1", isDeleted}, rest),
		},
		want: []string{
			"- calls rwo1: attach n1, detach n1, attach n1",
			`- event about p2#1: Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "rwo1" `,
			"+ calls rwo1: attach n1",
		},
	},
	// plugins/csi/verify.go checkPlace.
	{
		what: "the spec of an attachment is compared, not its name alone",
		history: history{
			then(otherAttachment{"rwo2", "rwo1", "n1"}, short),
			run("p1", "n1", rest, "rwo1"),
		},
		want: []string{
			`- event about p1#1: Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "rwo1" `,
			"- reported rwo1@n1",
			`+ event about p1#1: Warning FailedAttachVolume: AttachVolume.Attach failed for volume "rwo1" : VolumeAttachment csi-7fa02f028e07cc6d04a04c660b7152f754102b8da208df71d9312a9ac25cb2db ` +
				"is of volume rwo2 of driver disk.example.com on node n1, not of volume rwo1 of driver disk.example.com on node n1: name is taken",
		},
	},
	{
		what: "none: nodes that are gone have six minutes also after a restart",
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(dropNode{"n1"}, rest),
			then(restart{}, rest),
			then(nothing{}, long),
		},
	},
}

func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.what, func(t *testing.T) {
			t.Parallel()
			d, _, _ := s.tell(t)
			if got, want := d.String(), lined(s.want); got != want {
				t.Errorf("%s\ngot (-upstream +ours):\n%s\nwant:\n%s", s.history, got, want)
			}
			if excuse := deliberate(d); isDrawn(s.what) && !strings.Contains(excuse, s.what) {
				t.Errorf("the difference is taken for %q", excuse)
			}
		})
	}
}

func TestAllThatIsDeliberateHasAStory(t *testing.T) {
	for _, one := range deliberates {
		if !strings.HasPrefix(one.what, "time: ") && !slices.ContainsFunc(stories, func(s story) bool { return s.what == one.what }) {
			t.Errorf("no story of: %s", one.what)
		}
	}
}

// tell lets both worlds live through a story and returns how they differ in the end.
func (s story) tell(t *testing.T) (d delta, upstream, ours life) {
	ours, upstream = newOurs(nil, spoil{}).live(s.history), liveUpstream(t, s.history, nil)
	last := len(s.history) - 1
	return delta{s.history, upstream.states[last], ours.states[last], upstream.facts, ours.facts}, upstream, ours
}

func lined(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

func isDrawn(what string) bool {
	return slices.ContainsFunc(deliberates, func(one excuse) bool { return one.what == what })
}

// A pod of three volumes whose claims are gone goes, too: ours lets go of all three at once, upstream of one each minute.
//
// Differs: see attachdetach/desired.go.
func TestVolumesOfAPodLeaveTogether(t *testing.T) {
	t.Parallel()
	s := story{history: history{
		run("p1", "n1", rest, "rwo1", "rwo2", "rwx"),
		then(dropClaim{"rwo1"}, short), then(dropClaim{"rwo2"}, short), then(dropClaim{"rwx"}, short),
		then(endPod{"p1", isDeleted}, pause(100*time.Second)),
		then(nothing{}, rest),
	}}
	_, upstream, ours := s.tell(t)
	left := func(s state) (n int) {
		for _, line := range s {
			if strings.HasPrefix(line, "attachment ") {
				n++
			}
		}
		return n
	}
	if u, o := left(upstream.states[4]), left(ours.states[4]); u == 0 || o != 0 {
		t.Errorf("left after 100 s: upstream %d, want some; ours %d, want none", u, o)
	}
	if u, o := left(upstream.states[5]), left(ours.states[5]); u != 0 || o != 0 {
		t.Errorf("left in the end: upstream %d, ours %d, want none", u, o)
	}
}

// A volume cannot be detached from one node nor attached to another: in upstream's controller the two operations wipe each
// other's back-off out, and it tries in every round of its loop.
//
// Differs: see executor/executor.go.
func TestAlternatingFailuresBackOff(t *testing.T) {
	t.Parallel()
	s := story{history: history{
		run("p1", "n1", rest, "rwo1"),
		then(turn{"detach", errs}, short), then(turn{"attach", errs}, short),
		then(endPod{"p1", isDeleted}, short),
		run("p2", "n2", rest, "rwo1"),
	}}
	_, upstream, ours := s.tell(t)
	const request = "delete volumeattachments"
	if u, o := upstream.faults.count(request), ours.faults.count(request); u < 50 || o > 12 {
		t.Errorf("deletions asked for in 270 s: upstream %d, want 50 at least; ours %d, want 12 at most", u, o)
	}
}
