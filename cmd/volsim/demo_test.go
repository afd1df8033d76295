package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/sim/trace"
)

// volsim runs the command line.
func volsim(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestDemoShowsTheLifeCycleOfAVolume(t *testing.T) {
	for _, devices := range []string{"array", "loop"} {
		t.Run(devices, func(t *testing.T) {
			if err := loop.Probe(); devices == "loop" && err != nil {
				t.Skipf("loop devices: %v", err)
			}
			dir := t.TempDir()
			status, out, errs := volsim(t.Context(), "demo", "--devices", devices, "--dir", dir)
			if status != 0 || errs != "" {
				t.Fatalf("status %d, stderr %q", status, errs)
			}
			inOrder(t, out, []string{
				"A cluster of two nodes", "registers with the kubelet of each node", "registers driver",
				"A claim is provisioned and bound", "of a class that binds immediately", "creates claim default/data of 64Mi",
				"has the driver create a volume pvc-", "binds claim default/data to volume pvc-", "marks claim default/data Bound",
				"A pod uses it on node-1", "Before the pod can start", "binds pod default/web to node-1", "requests attachment of volume pvc-",
				"has the driver attach the volume: node=node-1", "lists vol-", "has the driver stage the volume: path=",
				"/globalmount", "has the driver publish the volume to the pod: path=", "/volumes/kubernetes.io~csi/pvc-",
				"reports pod default/web Running", "writes 47 bytes to",
				"The pod is recreated on node-2", "for one node at a time", "cordons node-1", "has the driver unpublish the volume from the pod",
				"has the driver detach the volume: node=node-1", "has the driver attach the volume: node=node-2",
				"$ cat /mnt/data/greeting.txt | Written on node-1, through the pod's own path.",
				"finds greeting.txt with the same 47 bytes", "$ df -h /mnt/data | ", "47 used",
				"A snapshot is taken and restored", "creates snapshot default/before of claim data", "creates snapshot content snapcontent-",
				"for snapshot default/before", "has the driver take a snapshot: volume=", "reports snapshot content snapcontent-", "ready to use",
				"reports snapshot default/before ready to use", "overwrites greeting.txt with 42 bytes", "has the driver create a volume: from=",
				"$ cat /mnt/restored/greeting.txt | Written on node-1", "finds greeting.txt with the first 47 bytes",
				"Pods, claims, snapshot and volumes are deleted", "reclaim policy is Delete", "deletes snapshot default/before", "has the driver delete the snapshot",
				"marks volume pvc-", "Released", "has the driver delete the volume", "API writes,", "driver calls", "on " + devices + " devices", "No leaks.",
			})
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("files in the directory: %v, %v", left, err)
			}
		})
	}
}

func TestDemoOnVolumeGroupsKeepsThePodOnItsNode(t *testing.T) {
	if err := lvm.Probe(); err != nil {
		t.Skipf("volume groups: %v", err)
	}
	dir := t.TempDir()
	status, out, errs := volsim(t.Context(), "demo", "--devices", "lvm", "--dir", dir)
	if status != 0 || errs != "" {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	inOrder(t, out, []string{
		"volumes on logical volumes of this machine",
		"A claim waits for its first pod", "because its class waits for the first consumer", "creates claim default/data of 64Mi",
		"A pod is scheduled to node-1", "creates pod default/web", "selects node-1 for claim default/data", "has the driver create a volume pvc-",
		"has the driver attach the volume: node=node-1", "writes 47 bytes to",
		"can only run on node-1", "cordons node-1", "creates pod default/web",
		"cannot schedule pod/web: 0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) were unschedulable.",
		"Node-2 has no such disk", "uncordons node-1", "binds pod default/web to node-1",
		"finds greeting.txt with the same 47 bytes", "has the driver take a snapshot", "has the driver create a volume: from=",
		"finds greeting.txt with the first 47 bytes", "has the driver delete the snapshot", "has the driver delete the volume", "on lvm devices", "No leaks.",
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files in the directory: %v, %v", left, err)
	}
}

// inOrder checks that the output contains the texts in this order, regardless of line breaks, and that no line is too long.
func inOrder(t *testing.T, out string, texts []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > defaultWidth {
			t.Errorf("line of %d columns: %s", n, line)
		}
	}
	out = regexp.MustCompile(`/\n {20,}`).ReplaceAllString(out, "/")
	out = regexp.MustCompile(`\n {2,}\b`).ReplaceAllString(out, " ")
	at := 0
	for _, want := range texts {
		i := strings.Index(out[at:], want)
		if i < 0 {
			t.Fatalf("no %q after the preceding texts in:\n%s", want, out)
		}
		at += i + len(want)
	}
}

func TestDemoAsJSON(t *testing.T) {
	status, out, errs := volsim(t.Context(), "demo", "--devices", "array", "--json")
	if status != 0 || errs != "" {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	kinds := map[string]int{}
	var last event
	for line := range strings.Lines(out) {
		last = event{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if (last.Event == "chapter") != (last.Why != "") {
			t.Errorf("only a chapter has a reason: %s", line)
		}
		kinds[last.Event]++
	}
	if kinds["chapter"] != 6 || kinds["note"] != 7 || kinds["action"] < 100 || kinds["summary"] != 1 {
		t.Errorf("events: %v", kinds)
	}
	if s := last.Summary; s == nil || s.Writes < 30 || s.DriverCalls < 12 || s.Devices != "array" || s.ElapsedMS <= 0 {
		t.Errorf("last line %+v, want a summary", last)
	}
}

func TestDemoReportsErrorsInOneLine(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown devices", []string{"demo", "--devices", "zfs"}, `volsim: invalid --devices "zfs": want auto, loop, lvm or array`},
		{"unknown command", []string{"dmeo"}, `volsim: unknown command "dmeo" for "volsim"; did you mean "demo"?`},
		{"argument", []string{"demo", "twice"}, `volsim: unknown command "twice" for "volsim demo"`},
		{"unknown flag", []string{"demo", "--fast"}, "volsim: unknown flag: --fast"},
		{"subcommand", []string{"driver", "tape"}, `volsim: unknown command "tape" for "volsim driver"`},
		{"help topic", []string{"help", "tapes"}, `volsim: unknown command "tapes" for "volsim"`},
		{"help topic of a subcommand", []string{"help", "driver", "tapes"}, `volsim: unknown command "tapes" for "volsim driver"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, _, errs := volsim(t.Context(), tt.args...)
			if line, _, _ := strings.Cut(errs, "\n"); status != 2 || line != tt.want {
				t.Errorf("status %d, stderr %q, want %q", status, errs, tt.want)
			}
		})
	}
}

func TestDemoWithoutTools(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	status, _, errs := volsim(t.Context(), "demo", "--devices", "loop")
	if status != 1 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "install e2fsprogs") {
		t.Errorf("status %d, stderr %q, want one line that names the package", status, errs)
	}
	status, out, errs := volsim(t.Context(), "demo")
	if status != 0 || !strings.Contains(out, "a simulated disk array in memory: ") || !strings.Contains(out, "install e2fsprogs") {
		t.Errorf("auto: status %d, stderr %q, first lines %q; want the array and the reason", status, errs, out[:min(300, len(out))])
	}
}

func TestDemoInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	status, _, errs := volsim(ctx, "demo", "--devices", "array")
	if status != 130 || errs != "volsim: interrupted; all volumes, mounts and devices are removed\n" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

func TestDemoOnAFullDisk(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	status, _, errs := volsim(t.Context(), "demo", "--devices", "loop", "--dir", dir)
	if status != 1 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "no space left in "+dir) {
		t.Errorf("status %d, stderr %q, want one line about the space", status, errs)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files in the directory: %v, %v", left, err)
	}
}

// TestDemoCleansUpAfterAClosedPipe closes the pipe of the demo's output, like head.
func TestDemoCleansUpAfterAClosedPipe(t *testing.T) {
	dir := t.TempDir()
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command("demo")
	cmd.Env, cmd.Stdout = append(cmd.Env, "TMPDIR="+dir), writes
	if err := errors.Join(reads.Close(), cmd.Start(), writes.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("killed: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("leaked %v (%v)", left, err)
	}
}

func TestCapacitiesSeen(t *testing.T) {
	const cache, resource = "scheduler/cache csistoragecapacities", "csistoragecapacities"
	deliver := func(task, verb, object, detail string) trace.Record {
		return trace.Record{
			Task: task, Action: trace.Action{Kind: trace.KindDeliver, Verb: verb, Object: object}, Outcome: trace.Outcome{Detail: detail},
		}
	}
	one, two := resource+"/kube-system/one", resource+"/kube-system/two"
	for name, tt := range map[string]struct {
		records []trace.Record
		want    int
	}{
		"events": {[]trace.Record{deliver(cache, "LIST", resource, "0 items rv=3"), deliver(cache, "ADDED", one, "rv=4"), deliver(cache, "ADDED", two, "rv=5")}, 2},
		"one in the list": {[]trace.Record{
			deliver(cache, "LIST", resource, "1 items rv=4"), deliver(cache, "MODIFIED", one, "rv=5"), deliver(cache, "ADDED", two, "rv=6"),
		}, 2},
		"both in the list": {[]trace.Record{deliver(cache, "LIST", resource, "2 items rv=5")}, 2},
		"one changes":      {[]trace.Record{deliver(cache, "ADDED", one, "rv=4"), deliver(cache, "MODIFIED", one, "rv=5")}, 1},
		"another cache":    {[]trace.Record{deliver("provisioner/cache "+resource, "LIST", resource, "2 items rv=5")}, 0},
	} {
		t.Run(name, func(t *testing.T) { testcheck.Equal(t, "capacities", tt.want, capacitiesSeen(tt.records)) })
	}
}
