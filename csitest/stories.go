package csitest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
)

// A story is what users do with volumes in a trial. It ends with nothing left.
type story struct {
	name string
	when string // what it is about, as the end of a sentence: "after a reboot of node-1"
	// acts are acts of package scenario, or "read POD CLAIM FILE", or "on NODE start DRIVER again". Each name of
	// an object ends with "%", which stands for what distinguishes two users of one world.
	acts string
	// calls are the calls that trials disturb, as "RPC" or "RPC#N" for the N-th one.
	calls string
	needs need
	// optional says that a driver may refuse the volume.
	optional bool
	// stepped says that it takes a stepped world.
	stepped bool
}

// A need is a capability of the driver that a story needs.
type need int

const (
	needNothing need = iota
	needExpansion
	needSnapshots
	needFreedom // volumes can be used on each node
	needBlock   // see Target.Block
)

const allCalls = `CreateVolume DeleteVolume ControllerPublishVolume ControllerUnpublishVolume NodeStageVolume
	NodeUnstageVolume NodePublishVolume NodeUnpublishVolume`

// stories are all stories. In the default order users act only when nothing else can. A story that does not
// wait does the same as one that does until a call fails or hangs: then it goes on at once, and deletes what
// the call was for.
var stories = []story{
	{name: "life", calls: allCalls, acts: `
		create claim data% 64Mi
		create pod web% data%
		wait pod web% Running
		write pod web% data%
		read web% data% web%
		delete pod web%
		wait pod web% gone
		delete claim data%`},
	{name: "hasty life", when: "when the pod is deleted at once", calls: allCalls, acts: `
		create claim data% 64Mi
		create pod web% data%
		delete pod web%
		delete claim data%`},
	{
		name: "move", when: "when a pod on another node gets the volume", needs: needFreedom,
		calls: `ControllerPublishVolume#2 ControllerUnpublishVolume NodeStageVolume#2 NodeUnstageVolume NodePublishVolume#2 NodeUnpublishVolume`,
		acts: `
		create claim data% 64Mi
		create pod web% data% on=node-1
		wait pod web% Running
		write pod web% data%
		delete pod web%
		create pod next% data% on=node-2
		wait pod next% Running
		read next% data% web%
		delete pod next%
		wait pod next% gone
		delete claim data%`,
	},
	{
		name: "sharing", when: "when two pods of a node share the volume",
		calls: `NodePublishVolume#2 NodeUnpublishVolume NodeUnpublishVolume#2`, acts: `
		create claim data% 64Mi
		create pod web% data% on=node-1
		create pod next% data% on=node-1
		wait pod web% Running
		wait pod next% Running
		write pod web% data%
		delete pod web%
		wait pod web% gone
		read next% data% web%
		delete pod next%
		delete claim data%`,
	},
	{
		name: "two nodes", when: "when pods of two nodes share the volume", needs: needFreedom, optional: true,
		calls: `ControllerPublishVolume#2 ControllerUnpublishVolume ControllerUnpublishVolume#2 NodeStageVolume#2 NodeUnstageVolume`, acts: `
		create claim data% 64Mi modes=ReadWriteMany
		create pod web% data% on=node-1
		create pod next% data% on=node-2
		wait pod web% Running
		wait pod next% Running
		write pod web% data%
		read next% data% web%
		delete pod web%
		delete pod next%
		delete claim data%`,
	},
	{
		name: "block", when: "for a block volume", needs: needBlock,
		calls: `NodeStageVolume NodeUnstageVolume NodePublishVolume NodeUnpublishVolume`, acts: `
		create claim data% 64Mi mode=Block
		create pod web% devices=data%
		wait pod web% Running
		delete pod web%
		wait pod web% gone
		delete claim data%`,
	},
	{
		name: "growth", when: "when the volume grows", needs: needExpansion,
		calls: `ControllerExpandVolume NodeExpandVolume NodeUnpublishVolume`, acts: `
		create claim data% 64Mi
		create pod web% data%
		wait pod web% Running
		write pod web% data%
		set claim data% size=128Mi
		wait claim data% 128Mi
		read web% data% web%
		delete pod web%
		wait pod web% gone
		delete claim data%`,
	},
	{
		name: "hasty growth", when: "when the growing volume is deleted at once", needs: needExpansion,
		calls: `ControllerExpandVolume NodeExpandVolume`, acts: `
		create claim data% 64Mi
		create pod web% data%
		set claim data% size=128Mi
		delete pod web%
		delete claim data%`,
	},
	{
		name: "reboot", when: "after a reboot of the node", stepped: true,
		calls: `NodeStageVolume#2 NodePublishVolume#2 NodeUnpublishVolume NodeUnstageVolume`, acts: `
		create claim data% 64Mi
		create pod web% data% on=node-1
		wait pod web% Running
		write pod web% data%
		let reboot node-1
		read web% data% web%
		delete pod web%
		wait pod web% gone
		delete claim data%`,
	},
	{
		name: "driver restart", when: "after a restart of the driver",
		calls: `NodePublishVolume#2 NodeUnpublishVolume NodeUnstageVolume ControllerUnpublishVolume DeleteVolume`, acts: `
		create claim data% 64Mi
		create pod web% data% on=node-1
		wait pod web% Running
		write pod web% data%
		restart node-1
		restart controller
		create pod next% data% on=node-1
		wait pod next% Running
		read next% data% web%
		delete pod web%
		delete pod next%
		wait pod web% gone
		wait pod next% gone
		delete claim data%`,
	},
	{
		name: "snapshot", when: "when a snapshot is taken and restored", needs: needSnapshots,
		calls: `CreateSnapshot DeleteSnapshot CreateVolume#2`, acts: snapshotClass + `
		create claim data% 64Mi
		create pod web% data%
		wait pod web% Running
		write pod web% data%` + takeSnapshot + `
		create pod next% data%
		wait ` + snapshotResource + ` snap% status.readyToUse=true` + restoreSnapshot + `
		create pod reader% restored%
		wait pod reader% Running
		read reader% restored% web%
		delete pod web%
		delete pod next%
		delete pod reader%
		delete claim restored%
		delete ` + snapshotResource + ` snap%
		wait ` + snapshotResource + ` snap% gone
		delete claim data%`,
	},
	{
		name: "hasty snapshot", when: "when the snapshot is deleted at once", needs: needSnapshots,
		calls: `CreateSnapshot DeleteSnapshot CreateVolume#2`, acts: snapshotClass + `
		create claim data% 64Mi
		create pod web% data%` + takeSnapshot + restoreSnapshot + `
		delete claim restored%
		delete ` + snapshotResource + ` snap%
		delete pod web%
		delete claim data%`,
	},
}

// Acts about snapshots.
const (
	snapshotResource = "volumesnapshots.snapshot.storage.k8s.io"
	snapshotClass    = `
		apply {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": "snapshots%"}, "driver": "DRIVER", "deletionPolicy": "Delete"}`
	takeSnapshot = `
		apply {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": "snap%", "namespace": "default"}, "spec": {"volumeSnapshotClassName": "snapshots%", "source": {"persistentVolumeClaimName": "data%"}}}`
	restoreSnapshot = `
		apply {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "restored%", "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}, "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap%"}}}`
)

// findStory returns the story of a name.
func findStory(name string) (story, error) {
	i := slices.IndexFunc(stories, func(s story) bool { return s.name == name })
	if i < 0 {
		return story{}, fmt.Errorf("no story %q", name)
	}
	return stories[i], nil
}

// endsAlthough reports whether the story can go on after a disturbance with any driver.
func (s *story) endsAlthough(how disturbance) bool {
	switch {
	case how.kind == removed:
		return s.name == probeStory || s.name == "hasty life" // the volume is detached at the end only
	case how.isInfeasible():
		return s.name != "growth" // which waits for the new size
	default:
		return true
	}
}

// lines returns the acts of a user of the story. suffix ends the names of its objects.
func (s *story) lines(driver, suffix string) []string {
	var all []string
	for line := range strings.Lines(s.acts) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, strings.NewReplacer("%", suffix, "DRIVER", driver).Replace(line))
		}
	}
	return all
}

// perform performs the acts of a user in a world, in a task of the user.
func (w *world) perform(ctx context.Context, lines []string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		var err error
		switch {
		case words[0] == "restart":
			err = w.restartDriver(strings.TrimPrefix(words[1], "controller"))
		case words[0] == "write" && w.noData, words[0] == "read" && w.noData:
		case words[0] == "read":
			err = w.read(ctx, words[1], words[2], words[3])
		case words[0] == "write" && w.probes && !w.isMounted(words[2], words[3]):
			w.noData = true
		default:
			var act scenario.Act
			if act, err = scenario.ParseAct(line); err == nil {
				err = act.Do(ctx, w.cluster, nil)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

// restartDriver ends and starts the driver on a node, or its controller if node is "".
func (w *world) restartDriver(node string) error {
	return errors.Join(w.cluster.StopDriver(node, w.driver), w.cluster.StartDriver(node, w.driver))
}

// isMounted reports whether a volume of a running pod is mounted: a driver may mount nothing, if it is one for
// tests.
func (w *world) isMounted(pod, claim string) bool {
	_, err := w.cluster.MountPath("default", pod, claim)
	return !errors.Is(err, cluster.ErrNotMounted)
}

// read reads a file that a pod has written, as soon as the volume is mounted.
func (w *world) read(ctx context.Context, pod, claim, file string) error {
	var data []byte
	var err error
	waited := w.cluster.Wait(ctx, "volume "+claim+" of pod "+pod+" to be mounted", func() bool {
		data, err = w.cluster.ReadFile("default", pod, claim, file)
		return !errors.Is(err, cluster.ErrNotMounted)
	})
	switch {
	case waited != nil:
		return waited
	case errors.Is(err, fs.ErrNotExist):
		return &lostData{fmt.Sprintf("pod %s does not find the file that pod %s has written", pod, file)}
	case err != nil:
		return err
	case string(data) != "written":
		return &lostData{fmt.Sprintf("pod %s reads %q, and pod %s has written %q", pod, data, file, "written")}
	}
	return nil
}

// A lostData is the error of a user who does not find what was written.
type lostData struct{ why string }

func (l *lostData) Error() string { return l.why }
