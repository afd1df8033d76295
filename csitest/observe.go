package csitest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// An observer sees the calls that reach the driver of one world, and compares each answer with what the
// specification requires after the earlier ones.
type observer struct {
	timeout time.Duration
	blocked func(rpc string) // is called if a call goes on although its context has ended

	mu         sync.Mutex
	controller grpc.ClientConnInterface // the driver's controller itself, for questions of the checker
	disks      map[string]nodefs.FS     // of the nodes
	calls      []*call
	last       map[string]*call // the last call that succeeded, by key
	tried      map[string]bool  // keys of calls that create something, whatever their answer
	names      map[string]string
	deleted    map[string]bool   // volumes and snapshots, by ID
	granted    map[string]int64  // the largest size of a volume that was answered
	nodeIDs    map[string]string // by node
	starts     map[string]int    // of the services, by node
	restarts   int
	crashes    int
	crashed    string                  // the component that crashed last
	reached    map[string]int          // calls that have reached the driver, by RPC
	lost       map[numberedCall]string // calls whose callers will not get the answer, and why
	removeNext bool                    // the next ControllerUnpublishVolume is followed by the deletion of its volume
	findings   []finding
}

// A call is a call that has reached the driver.
type call struct {
	rpc, node string
	key       string
	undoes    bool
	request   proto.Message
	response  proto.Message
	err       error
	lost      string // why the caller did not get the answer, as "a lost response"; "": it did
	restarts  int    // before it
	crashes   int
}

// A finding is a sentence about an RPC. Of those with the same RPC and kind the first is reported.
type finding struct {
	rpc, kind, text string
}

func newObserver(timeout time.Duration, blocked func(rpc string)) *observer {
	return &observer{
		timeout: timeout, blocked: blocked, disks: map[string]nodefs.FS{}, last: map[string]*call{}, tried: map[string]bool{},
		reached: map[string]int{}, lost: map[numberedCall]string{}, names: map[string]string{}, deleted: map[string]bool{},
		granted: map[string]int64{}, nodeIDs: map[string]string{}, starts: map[string]int{},
	}
}

// driver returns a driver whose calls are observed.
func (o *observer) driver(d cluster.Driver) cluster.Driver {
	return wrapped(d, func(at cluster.DriverNode, register registerFunc) registerFunc {
		o.mu.Lock()
		defer o.mu.Unlock()
		if at.Name == "" {
			o.controller = csi.Direct(register)
		} else {
			o.disks[at.Name] = at.Disk
		}
		if o.starts[at.Name]++; o.starts[at.Name] > 1 {
			o.restarts++
		}
		return intercepted(register, func(ctx context.Context, rpc string, request proto.Message, next nextFunc) (any, error) {
			return o.observe(ctx, at, rpc, request, next)
		})
	})
}

// loseNext says that the caller of the next call of an RPC will not get the answer, and why.
func (o *observer) loseNext(rpc, why string) { o.loseLater(rpc, 1, why) }

// loseLater says that of the n-th next call.
func (o *observer) loseLater(rpc string, n int, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost[numberedCall{rpc, o.reached[rpc] + n}] = why
}

// noteCrash says that a caller of the driver has crashed.
func (o *observer) noteCrash(component string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.crashes++
	o.crashed, _, _ = strings.Cut(component, "(")
}

// observe makes the driver answer a call.
func (o *observer) observe(ctx context.Context, at cluster.DriverNode, rpc string, request proto.Message, next nextFunc) (any, error) {
	response, err := o.answer(ctx, rpc, next)
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &call{rpc: rpc, node: at.Name, request: request, err: err, restarts: o.restarts, crashes: o.crashes}
	if err == nil {
		c.response, _ = response.(proto.Message)
	}
	o.reached[rpc]++
	c.lost = o.lost[numberedCall{rpc, o.reached[rpc]}]
	if info, ok := c.response.(*csispec.NodeGetInfoResponse); ok {
		o.checkNodeID(at.Name, info.GetNodeId())
	}
	if c.key, c.undoes = o.keyOf(c); c.key == "" {
		return response, err
	}
	o.check(c, o.last[c.key])
	o.calls = append(o.calls, c)
	o.remember(c)
	if rpc == "ControllerUnpublishVolume" && o.removeNext {
		o.removeNext = false
		o.remove(ctx, request.(*csispec.ControllerUnpublishVolumeRequest).GetVolumeId())
	}
	return response, err
}

// grace is how long a call may take to return after its context has ended.
const grace = 2 * time.Second

// answer calls the driver. A call that panics or is not answered is a finding.
func (o *observer) answer(ctx context.Context, rpc string, next nextFunc) (response any, err error) {
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	ignored, cancelIgnored := context.WithTimeout(ctx, o.timeout+grace)
	defer cancelIgnored()
	stop := context.AfterFunc(ignored, func() {
		if errors.Is(ignored.Err(), context.DeadlineExceeded) {
			o.blocked(rpc)
		}
	})
	defer stop()
	defer func() {
		if p := recover(); p != nil {
			if sim.Unwinding(p) {
				panic(p)
			}
			o.find(rpc, "panic", "%s panics: %v\n%s", rpc, p, debug.Stack())
			err = status.Errorf(codes.Internal, "%s panicked: %v", rpc, p)
		}
	}()
	response, err = next(limited)
	if limited.Err() != nil && ctx.Err() == nil {
		o.find(rpc, "hang", "%s does not answer within %v: it returned when its context had ended", rpc, o.timeout)
	}
	return response, err
}

// find adds a finding. The caller does not hold mu.
func (o *observer) find(rpc, kind, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(rpc, kind, format, args...)
}

// add adds a finding. The caller holds mu.
func (o *observer) add(rpc, kind, format string, args ...any) {
	o.findings = append(o.findings, finding{rpc, kind, fmt.Sprintf(format, args...)})
}

// hasFinding reports whether there is a finding.
func (o *observer) hasFinding() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.findings) > 0
}

// found returns the findings so far.
func (o *observer) found() []finding {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.findings)
}

// keyOf returns what a call is about, and whether it undoes something. It returns "" for a call that changes
// nothing.
func (o *observer) keyOf(c *call) (key string, undoes bool) {
	join := func(words ...string) string { return strings.Join(words, " ") }
	switch r := c.request.(type) {
	case *csispec.CreateVolumeRequest:
		return join("volume", r.GetName()), false
	case *csispec.DeleteVolumeRequest:
		return join("volume", o.nameOf(r.GetVolumeId())), true
	case *csispec.ControllerPublishVolumeRequest:
		return join("attach", r.GetVolumeId(), r.GetNodeId()), false
	case *csispec.ControllerUnpublishVolumeRequest:
		return join("attach", r.GetVolumeId(), r.GetNodeId()), true
	case *csispec.ControllerExpandVolumeRequest:
		return join("expand", r.GetVolumeId()), false
	case *csispec.CreateSnapshotRequest:
		return join("snapshot", r.GetName()), false
	case *csispec.DeleteSnapshotRequest:
		return join("snapshot", o.nameOf(r.GetSnapshotId())), true
	case *csispec.NodeStageVolumeRequest:
		return join("stage", c.node, r.GetVolumeId(), r.GetStagingTargetPath()), false
	case *csispec.NodeUnstageVolumeRequest:
		return join("stage", c.node, r.GetVolumeId(), r.GetStagingTargetPath()), true
	case *csispec.NodePublishVolumeRequest:
		return join("publish", c.node, r.GetVolumeId(), r.GetTargetPath()), false
	case *csispec.NodeUnpublishVolumeRequest:
		return join("publish", c.node, r.GetVolumeId(), r.GetTargetPath()), true
	case *csispec.NodeExpandVolumeRequest:
		return join("grow", c.node, r.GetVolumeId(), r.GetVolumePath()), false
	default:
		return "", false
	}
}

// nameOf returns the name with which a volume or snapshot was created, or its ID.
func (o *observer) nameOf(id string) string {
	if name, ok := o.names[id]; ok {
		return name
	}
	return id
}

// remember updates what is known of the driver's state.
func (o *observer) remember(c *call) {
	if !c.undoes {
		o.tried[c.key] = true
	}
	if c.err != nil {
		return
	}
	o.last[c.key] = c
	switch r := c.response.(type) {
	case *csispec.CreateVolumeResponse:
		v := r.GetVolume()
		o.names[v.GetVolumeId()] = c.request.(*csispec.CreateVolumeRequest).GetName()
		o.granted[v.GetVolumeId()] = max(o.granted[v.GetVolumeId()], v.GetCapacityBytes())
	case *csispec.CreateSnapshotResponse:
		o.names[r.GetSnapshot().GetSnapshotId()] = c.request.(*csispec.CreateSnapshotRequest).GetName()
	case *csispec.ControllerExpandVolumeResponse:
		id := c.request.(*csispec.ControllerExpandVolumeRequest).GetVolumeId()
		o.granted[id] = max(o.granted[id], r.GetCapacityBytes())
	case *csispec.DeleteVolumeResponse:
		o.deleted[c.request.(*csispec.DeleteVolumeRequest).GetVolumeId()] = true
	case *csispec.DeleteSnapshotResponse:
		o.deleted[c.request.(*csispec.DeleteSnapshotRequest).GetSnapshotId()] = true
	}
}

// remove deletes a volume as an administrator would.
func (o *observer) remove(ctx context.Context, id string) {
	_, err := csispec.NewControllerClient(o.controller).DeleteVolume(ctx, &csispec.DeleteVolumeRequest{VolumeId: id})
	o.deleted[id] = err == nil
}

// unresolved returns the last call that failed and was not followed by a success, nil if there is none.
func (o *observer) unresolved() *call {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := map[string]*call{}
	for _, c := range o.calls {
		last[c.key] = c
	}
	for i := len(o.calls) - 1; i >= 0; i-- {
		if c := o.calls[i]; c.err != nil && last[c.key] == c {
			return c
		}
	}
	return nil
}

// counts returns how often each RPC was called.
func (o *observer) counts() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := map[string]int{}
	for _, c := range o.calls {
		n[c.rpc]++
	}
	return n
}
