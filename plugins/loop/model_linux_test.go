package loop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

const (
	modelVolumes = 3
	modelCallers = 8
	modelCalls   = 60 // of each caller
)

// call is a request about one of a few volumes or its snapshot.
type call struct {
	volume int
	verb   string
	node   string
	bytes  int64
}

// answer is the result of a call.
type answer struct {
	code  codes.Code
	bytes int64
	node  string
}

// state is the model's state of one volume.
type state struct {
	exists, snapshot bool
	bytes            int64
	node             string // that it is attached to
}

// next implements the model. It returns the state after a call, and the expected answer.
func (s state) next(c call) (state, answer) {
	switch c.verb {
	case "create":
		if s.exists && s.bytes < c.bytes {
			return s, answer{code: codes.AlreadyExists}
		}
		if !s.exists {
			s.exists, s.bytes = true, c.bytes
		}
		return s, answer{bytes: s.bytes}
	case "delete":
		if s.node != "" {
			return s, answer{code: codes.FailedPrecondition}
		}
		s.exists, s.bytes = false, 0
		return s, answer{}
	case "detach":
		if c.node == "" || c.node == s.node {
			s.node = ""
		}
		return s, answer{}
	case "delete snapshot":
		s.snapshot = false
		return s, answer{}
	case "snapshot":
		if !s.snapshot && !s.exists {
			return s, answer{code: codes.NotFound}
		}
		s.snapshot = true
		return s, answer{}
	}
	if !s.exists {
		return s, answer{code: codes.NotFound}
	}
	switch c.verb {
	case "attach":
		if s.node != "" && s.node != c.node {
			return s, answer{code: codes.FailedPrecondition}
		}
		s.node = c.node
		return s, answer{}
	case "expand":
		s.bytes = max(s.bytes, c.bytes)
		return s, answer{bytes: s.bytes}
	}
	if c.verb == "get node" {
		return s, answer{node: s.node}
	}
	return s, answer{bytes: s.bytes} // get size
}

// TestConcurrentCallsAreLinearizable makes concurrent calls for few volumes, and searches for an
// order in which the model gives the same answers.
func TestConcurrentCallsAreLinearizable(t *testing.T) {
	needDevices(t)
	base := quickDir(t)
	d, err := New(Config{Dir: filepath.Join(base, "images")})
	testcheck.NoError(t, err)
	for _, node := range []string{"one", "two"} {
		fs, err := nodefs.NewReal(filepath.Join(base, node))
		testcheck.NoError(t, err)
		d.Node(node, fs)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	var clock atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	var group sync.WaitGroup
	for caller := range modelCallers {
		group.Go(func() {
			chance := rand.New(rand.NewPCG(1, uint64(caller)))
			for range modelCalls {
				requested := drawn(chance)
				began := clock.Add(1)
				got := d.answer(t.Context(), requested)
				ended := clock.Add(1)
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: caller, Input: requested, Call: began, Output: got, Return: ended,
				})
				mu.Unlock()
			}
		})
	}
	group.Wait()
	model := porcupine.Model{
		Init: func() any { return state{} },
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, modelVolumes)
			for _, each := range history {
				at := each.Input.(call).volume
				parts[at] = append(parts[at], each)
			}
			return parts
		},
		Step: func(from, requested, got any) (bool, any) {
			to, want := from.(state).next(requested.(call))
			if request := requested.(call); got.(answer).code == codes.Aborted &&
				strings.HasPrefix(request.verb, "get") {
				return true, from // the device is being detached: CSI's "operation pending"
			}
			return got.(answer) == want, to
		},
	}
	if !porcupine.CheckOperations(model, history) {
		t.Error("no order of the calls gives these answers:")
		for _, each := range history {
			t.Logf("%d-%d %+v: %+v", each.Call, each.Return, each.Input, each.Output)
		}
	}
	seen := map[codes.Code]int{}
	for _, each := range history {
		seen[each.Output.(answer).code]++
	}
	for _, code := range []codes.Code{codes.OK, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition} {
		if seen[code] == 0 {
			t.Errorf("no call was answered %s: %v", code, seen)
		}
	}
}

func drawn(chance *rand.Rand) call {
	verbs := []string{
		"create", "create", "delete", "attach", "attach", "detach", "detach", "expand", "snapshot", "delete snapshot",
		"get size", "get node",
	}
	requested := call{volume: chance.IntN(modelVolumes), verb: verbs[chance.IntN(len(verbs))]}
	switch requested.verb {
	case "create", "expand":
		requested.bytes = int64(16+16*chance.IntN(3)) * mebibyte
	case "attach":
		requested.node = []string{"one", "two"}[chance.IntN(2)]
	case "detach":
		requested.node = []string{"one", "two", ""}[chance.IntN(3)]
	}
	return requested
}

// answer makes a call.
func (d *Driver) answer(ctx context.Context, requested call) answer {
	name, c := fmt.Sprint("volume ", requested.volume), d.Controller()
	id := csireq.VolumeID(name)
	var got answer
	var err error
	wanted := &csi.CapacityRange{RequiredBytes: requested.bytes}
	switch requested.verb {
	case "create":
		var made *csi.CreateVolumeResponse
		made, err = c.CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: name, VolumeCapabilities: []*csi.VolumeCapability{blockWriter}, CapacityRange: wanted,
		})
		got.bytes = made.GetVolume().GetCapacityBytes()
	case "delete":
		_, err = c.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	case "attach":
		_, err = c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
			VolumeId: id, NodeId: requested.node, VolumeCapability: blockWriter,
		})
	case "detach":
		_, err = c.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{
			VolumeId: id, NodeId: requested.node,
		})
	case "expand":
		var grown *csi.ControllerExpandVolumeResponse
		grown, err = c.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: id, CapacityRange: wanted, VolumeCapability: blockWriter,
		})
		got.bytes = grown.GetCapacityBytes()
	case "snapshot":
		_, err = c.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: id})
	case "delete snapshot":
		_, err = c.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: csireq.SnapshotID(name)})
	case "get size", "get node": // one call reports it, but not at one instant: no call waits for it
		var response *csi.ControllerGetVolumeResponse
		response, err = c.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: id})
		if requested.verb == "get size" {
			got.bytes = response.GetVolume().GetCapacityBytes()
			break
		}
		for _, node := range response.GetStatus().GetPublishedNodeIds() {
			got.node = node
		}
	}
	got.code = status.Code(err)
	return got
}
