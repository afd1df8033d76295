package crd_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/crd"
	install "github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// BenchmarkInstallText serves the snapshot kinds as worlds do.
func BenchmarkInstallText(b *testing.B) {
	now := func() time.Time { return sim.Epoch }
	text := snapshotapi.Definitions()
	for b.Loop() {
		s := fake.NewServer(fake.Config{Now: now})
		if err := install.InstallText(b.Context(), s, text); err != nil {
			b.Fatal(err)
		}
	}
}

// TestInstallTextIsInstall compares the definitions, and an object of theirs, of a server that installs a
// text first, one that installs it again, and one that has other definitions.
func TestInstallTextIsInstall(t *testing.T) {
	at := sim.Epoch.Add(time.Hour)
	text := snapshotapi.Definitions()
	servers := make([]*fake.Server, 3)
	for i := range servers {
		servers[i] = fake.NewServer(fake.Config{Now: func() time.Time { return at }})
	}
	crd.Serve(servers[0])
	user := servers[0].Client(testworld.ImmediateCaller(func() time.Time { return at }))
	testcheck.NoError(t, crd.Install(t.Context(), user, strings.NewReader(text)),
		install.InstallText(t.Context(), servers[1], text), install.InstallText(t.Context(), servers[2], text))
	const definitions = "customresourcedefinitions.apiextensions.k8s.io"
	for _, s := range servers[1:] {
		if diff := cmp.Diff(servers[0].List(definitions), s.List(definitions)); diff != "" {
			t.Errorf("definitions (-Install +InstallText):\n%s", diff)
		}
	}
	kind := snapshotapi.Classes
	for _, s := range servers {
		classes := kind.Client(s.Client(testworld.ImmediateCaller(func() time.Time { return at })).Dynamic())
		_, err := classes.Create(t.Context(), &snapshotapi.VolumeSnapshotClass{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Driver: "d", DeletionPolicy: "Keep",
		})
		if want := `deletionPolicy: Unsupported value: "Keep"`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
	// a server with definitions of the same names keeps them
	if err := install.InstallText(t.Context(), servers[1], text); !apierrors.IsAlreadyExists(errors.Unwrap(err)) {
		t.Errorf("installed twice: %v", err)
	}
}
