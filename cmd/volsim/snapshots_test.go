package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestServeHasSnapshots checks what is served from the beginning, and which components are printed.
func TestServeHasSnapshots(t *testing.T) {
	const isDefault = `"%s.storage.kubernetes.io/is-default-class":"true"`
	for _, tt := range []struct {
		args   string
		served bool
		head   string
	}{
		{"", true, "snapshot by snapshotter, snapshotcontroller\n"},
		{"--by-hand", true, "snapshot by snapshotter, snapshotcontroller\n"},
		{"--components pvcontroller", true, "snapshot no component acts on snapshots: run a snapshot-controller and csi-snapshotters\n"},
		{"--snapshots=false", false, ""},
		{"--snapshots=false --by-hand", false, ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			stop, head := served(t, path, strings.Fields(tt.args)...)
			if !strings.Contains(head, tt.head) || tt.head == "" && strings.Contains(head, "snapshot ") {
				t.Errorf("output %s, want %q", head, tt.head)
			}
			for group, class := range map[string]string{"snapshot": "volumesnapshotclasses", "groupsnapshot": "volumegroupsnapshotclasses"} {
				at := fmt.Sprintf("/apis/%s.storage.k8s.io/v1/%s/standard", group, class)
				text, err := clientOf(t, path).RESTClient().Get().AbsPath(at).DoRaw(t.Context())
				if tt.served && (err != nil || !strings.Contains(string(text), fmt.Sprintf(isDefault, group)) || !strings.Contains(string(text), `"driver":"array.csi.volsim.dev"`)) {
					t.Errorf("%s: %s, %v, want the default class of the driver", at, text, err)
				}
				if !tt.served && !apierrors.IsNotFound(err) {
					t.Errorf("%s: %s, %v, want NotFound", at, text, err)
				}
			}
			if status, errs := stop(); status != 0 || errs != "" {
				t.Errorf("status %d, stderr %q", status, errs)
			}
		})
	}
}

// TestControllersWithSnapshots runs the snapshot controller against a server that is reachable only over
// HTTPS, and that serves no snapshots before.
func TestControllersWithSnapshots(t *testing.T) {
	t.Parallel()
	b, ctx := newBare(t), t.Context()
	crd.Serve(b.server)
	kubeconfig, _ := b.listen()
	r := control(t, kubeconfig, "--leader-elect=false", "--only", "snapshotcontroller", "--trace")
	if head := r.until("acting"); !strings.Contains(head, "components  snapshotcontroller\n") {
		t.Errorf("output\n%s", head)
	}
	claim := cluster.NewClaim("data", "1Gi")
	claim.Spec.VolumeName = "disk"
	claim, err := b.user.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	_, err = b.user.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data", UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "handle"},
			},
		},
	}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	claim.Status.Phase = corev1.ClaimBound
	_, err = b.user.CoreV1().PersistentVolumeClaims("default").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	testcheck.NoError(t, err)
	dynamic := b.server.Client(sim.DirectCaller()).Dynamic()
	_, err = snapshotapi.Classes.Client(dynamic).Create(ctx, &snapshotapi.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{snapshotapi.DefaultClass: "true"}},
		Driver:     "disk.example.com", DeletionPolicy: snapshotapi.Retain,
	})
	testcheck.NoError(t, err)
	snapshot := &snapshotapi.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
	snapshot.Spec.Source.PersistentVolumeClaimName = &claim.Name
	snapshot, err = snapshotapi.Snapshots.Client(dynamic).Create(ctx, snapshot)
	testcheck.NoError(t, err)
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	changes, err := dynamic.Resource(snapshotapi.Snapshots.Resource).Namespace("default").
		Watch(limited, metav1.ListOptions{ResourceVersion: snapshot.ResourceVersion})
	testcheck.NoError(t, err)
	defer changes.Stop()
	bound := ""
	for e := range changes.ResultChan() {
		if e.Type != watch.Modified {
			continue
		}
		if seen, err := snapshotapi.Snapshots.Parse(e.Object); err == nil && seen.IsBound() {
			bound = seen.BoundContent()
			break
		}
	}
	content, err := snapshotapi.Contents.Client(dynamic).Get(ctx, "", bound)
	testcheck.NoError(t, err)
	if content.Spec.Driver != "disk.example.com" || *content.Spec.Source.VolumeHandle != "handle" || !content.PointsTo(snapshot) {
		t.Errorf("content %+v", content.Spec)
	}
	if status, rest, errs := r.stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q, output\n%s", status, errs, rest)
	}
}
