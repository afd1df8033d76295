package addiff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/test/conformance/histories"
)

// A story is a history that shows a deliberate difference.
type story struct {
	name    string
	history history
	want    []string // lines of only one final state: "-" upstream's, "+" ours
}

func run(pod, node string, pause pause, disks ...string) step {
	return step{act: createPod{pod, node, disks}, pause: pause}
}

func then(act act, pause pause) step { return step{act: act, pause: pause} }

// stories show each of deliberate, and differences that drawn histories do not show.
var stories = []story{
	{
		name: handleWithSeparator,
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
		name: verifiedAtOnce,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(deleteAttachment{"rwo1", "n1"}, rest),
		},
		want: []string{
			`+ event about p1#1: Warning FailedAttachVolume: AttachVolume.Attach failed for volume "rwo1" : volume attachment is being deleted`,
		},
	},
	{
		name: unreported,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(setAttacher{"detach", hangs}, short),
			then(deleteAttachment{"rwo1", "n1"}, rest),
		},
		want: []string{
			"- reported rwo1@n1",
			`+ event about p1#1: Warning FailedAttachVolume: AttachVolume.Attach failed for volume "rwo1" : volume attachment is being deleted`,
		},
	},
	{
		name: uncertainWhileInUse,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(setKubelet{"n1", isHanging}, short),
			then(endPod{"p1", isDeleted}, short),
			run("p2", "n2", rest, "rwo1"),
			then(deleteAttachment{"rwo1", "n1"}, rest),
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
		name: notInUse,
		history: history{
			then(setKubelet{"n1", isDown}, short),
			then(setAttacher{"attach", errs}, short),
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
		name: deletedNode,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(deleteNode{"n1"}, rest),
			run("p2", "n1", rest, "rwo2"),
		},
		want: []string{
			"- attachment rwo2@n1: by disk.example.com, attached",
			"- calls rwo2: attach n1",
			`- event about p2#1: Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "rwo2" `,
		},
	},
	{
		name: podOfDeletedNode,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(deleteNode{"n1"}, rest),
			run("p2", "n1", rest, "rwo1"),
			run("p3", "n2", rest, "rwo1"),
		},
		want: []string{
			`- event about p3#1: Warning FailedAttachVolume: Multi-Attach error for volume "rwo1" Volume is already used by pod(s) p1, p2`,
			`+ event about p3#1: Warning FailedAttachVolume: Multi-Attach error for volume "rwo1" Volume is already used by pod(s) p1`,
		},
	},
	{
		name: uncertainElsewhere,
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(setAttacher{"detach", errs}, short),
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
	// attachdetach/attach.go runDetach: upstream treats a refusal as a failure, and then attaches
	// the volume to another node.
	{
		name: "a refused detach changes nothing",
		history: history{
			then(setKubelet{"n1", isDown}, short),
			run("p1", "n1", rest, "rwo1"),
			then(beforeRequest{"patch/status nodes", reportInUse{"n1", "rwo1"}}, short),
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
		name: "a forced detach checks the node too",
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(setKubelet{"n1", isHanging}, short),
			then(setReady{"n1", corev1.ConditionFalse}, short),
			then(endPod{"p1", isDeleted}, rest),
			then(beforeRequest{"patch/status nodes", setReady{"n1", corev1.ConditionTrue}}, long),
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
		name: "a volume that a pod needs again meanwhile stays attached",
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(beforeRequest{"patch/status nodes", createPod{"p2", "n1", []string{"rwo1"}}}, short),
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
		name: "the spec of an attachment is compared, not only its name",
		history: history{
			then(conflictingAttachment{"rwo2", "rwo1", "n1"}, short),
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
		name: "no difference: a deleted node has six minutes after a restart too",
		history: history{
			run("p1", "n1", rest, "rwo1"),
			then(deleteNode{"n1"}, rest),
			then(restart{}, rest),
			then(nothing{}, long),
		},
	},
}

func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			d, _, _ := s.execute(t)
			if got, want := d.String(), joinLines(s.want); got != want {
				t.Errorf("%s\ngot (-upstream +ours):\n%s\nwant:\n%s", s.history, got, want)
			}
			if excuse := pair.Excuse(d); isDeliberate(s.name) && !strings.Contains(excuse, s.name) {
				t.Errorf("excuse is %q", excuse)
			}
		})
	}
}

// TestDeliberateDifferencesHaveStories checks that a story shows each deliberate difference.
func TestDeliberateDifferencesHaveStories(t *testing.T) {
	for _, one := range deliberate {
		if !strings.HasPrefix(one.Name, "time: ") && !slices.ContainsFunc(stories, func(s story) bool { return s.name == one.Name }) {
			t.Errorf("no story shows: %s", one.Name)
		}
	}
}

// execute executes a story in both worlds and returns how the final states differ.
func (s story) execute(t *testing.T) (d delta, upstream, ours histories.Execution[*world]) {
	ours, upstream = runOurs(s.history, nil, mutation{}), runUpstream(t, s.history, nil)
	last := len(s.history) - 1
	return delta{
		History: s.history, Upstream: upstream.States[last], Ours: ours.States[last],
		UpstreamWorld: upstream.World, OurWorld: ours.World,
	}, upstream, ours
}

func joinLines(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

func isDeliberate(name string) bool {
	return slices.ContainsFunc(deliberate, func(one histories.Difference[step, *world]) bool { return one.Name == name })
}

// TestVolumesOfAPodAreDetachedTogether deletes a pod with three volumes whose claims are deleted.
// Ours detaches all three at once, upstream one each minute.
//
// Differs: see attachdetach/desired.go.
func TestVolumesOfAPodAreDetachedTogether(t *testing.T) {
	t.Parallel()
	s := story{history: history{
		run("p1", "n1", rest, "rwo1", "rwo2", "rwx"),
		then(deleteClaim{"rwo1"}, short), then(deleteClaim{"rwo2"}, short), then(deleteClaim{"rwx"}, short),
		then(endPod{"p1", isDeleted}, pause(100*time.Second)),
		then(nothing{}, rest),
	}}
	_, upstream, ours := s.execute(t)
	attachments := func(s histories.State) (n int) {
		for _, line := range s {
			if strings.HasPrefix(line, "attachment ") {
				n++
			}
		}
		return n
	}
	if u, o := attachments(upstream.States[4]), attachments(ours.States[4]); u == 0 || o != 0 {
		t.Errorf("attachments after 100 s: upstream %d, want some; ours %d, want none", u, o)
	}
	if u, o := attachments(upstream.States[5]), attachments(ours.States[5]); u != 0 || o != 0 {
		t.Errorf("attachments at the end: upstream %d, ours %d, want none", u, o)
	}
}

// TestAlternatingFailuresBackOff has a volume that can neither be detached from one node nor
// attached to another. In upstream's controller each operation resets the back-off of the other, so
// that it retries in every period of its loop.
//
// Differs: see executor/executor.go.
func TestAlternatingFailuresBackOff(t *testing.T) {
	t.Parallel()
	s := story{history: history{
		run("p1", "n1", rest, "rwo1"),
		then(setAttacher{"detach", errs}, short), then(setAttacher{"attach", errs}, short),
		then(endPod{"p1", isDeleted}, short),
		run("p2", "n2", rest, "rwo1"),
	}}
	_, upstream, ours := s.execute(t)
	const request = "delete volumeattachments"
	if u, o := upstream.World.faults.count(request), ours.World.faults.count(request); u < 50 || o > 12 {
		t.Errorf("delete requests in 270 s: upstream %d, want 50 at least; ours %d, want 12 at most", u, o)
	}
}
