package crd_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// BenchmarkInstallPaths serves the definitions in a directory as worlds do.
func BenchmarkInstallPaths(b *testing.B) {
	now := func() time.Time { return sim.Epoch }
	paths := []string{definitionFiles(b)}
	for b.Loop() {
		s := fake.NewServer(fake.Config{Now: now})
		if err := install.Install(b.Context(), s, paths); err != nil {
			b.Fatal(err)
		}
	}
}

// definitionFiles returns a directory with a file for each definition.
func definitionFiles(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range strings.Split(snapshotapi.Definitions(), "\n---\n") {
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)+".yaml"), []byte(text), 0o600))
	}
	return dir
}

// serversAt returns servers whose clocks stand still, and a client of the first, which serves definitions.
func serversAt(at time.Time, n int) ([]*fake.Server, *fake.Clientset) {
	now := func() time.Time { return at }
	servers := make([]*fake.Server, n)
	for i := range servers {
		servers[i] = fake.NewServer(fake.Config{Now: now})
	}
	crd.Serve(servers[0])
	return servers, servers[0].Client(testworld.ImmediateCaller(now))
}

// TestInstallIsInstallFS compares a server that installs a directory with the first one that installs its
// path, the next one, and one that has definitions. A changed file is read again.
func TestInstallIsInstallFS(t *testing.T) {
	at := sim.Epoch.Add(time.Hour)
	dir := definitionFiles(t)
	paths := []string{dir}
	servers, user := serversAt(at, 4)
	testcheck.NoError(t, crd.InstallFS(t.Context(), user, os.DirFS(dir)),
		install.Install(t.Context(), servers[1], paths), install.Install(t.Context(), servers[2], paths))
	const definitions = "customresourcedefinitions.apiextensions.k8s.io"
	for _, s := range servers[1:3] {
		if diff := cmp.Diff(servers[0].List(definitions), s.List(definitions)); diff != "" {
			t.Errorf("definitions (-InstallFS +Install):\n%s", diff)
		}
	}
	if err := install.Install(t.Context(), servers[1], paths); !apierrors.IsAlreadyExists(errors.Unwrap(errors.Unwrap(err))) {
		t.Errorf("installed twice: %v", err)
	}
	testcheck.NoError(t, os.WriteFile(filepath.Join(dir, "0.yaml"), []byte("kind: ConfigMap\n"), 0o600),
		install.Install(t.Context(), servers[3], paths))
	if got, want := servers[3].Count(definitions), servers[0].Count(definitions)-1; got != want {
		t.Errorf("%d definitions after a file has changed, want %d", got, want)
	}
	none := t.TempDir()
	testcheck.NoError(t, os.WriteFile(filepath.Join(none, "0.yaml"), []byte("kind: ConfigMap\n"), 0o600))
	for range 2 {
		err := install.Install(t.Context(), servers[3], []string{none})
		if want := none + ": no CustomResourceDefinition found"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestInstallTextIsInstall compares the definitions, and an object of theirs, of a server that installs a
// text first, one that installs it again, and one that has other definitions.
func TestInstallTextIsInstall(t *testing.T) {
	at := sim.Epoch.Add(time.Hour)
	text := snapshotapi.Definitions()
	servers, user := serversAt(at, 3)
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
