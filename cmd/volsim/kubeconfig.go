package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/cli"
)

// contextName is the name of the cluster, user and context in the kubeconfig.
const contextName = "volsim"

// kubeconfigMode is the mode of a kubeconfig with a token.
const kubeconfigMode fs.FileMode = 0o600

// A kubeconfig is a file to which a server is added, with its previous state.
type kubeconfig struct {
	path    string
	existed bool
	content []byte      // before
	mode    fs.FileMode // before
	current string      // current context before
	written []byte      // with the server
	server  string      // URL
}

// readKubeconfig reads a kubeconfig, which need not exist.
func readKubeconfig(path string) (*kubeconfig, *clientcmdapi.Config, error) {
	f := &kubeconfig{path: path, mode: kubeconfigMode}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, clientcmdapi.NewConfig(), nil
	}
	if err == nil {
		f.existed, f.mode = true, info.Mode().Perm()
		f.content, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	all, err := clientcmd.Load(f.content)
	if err != nil {
		return nil, nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	f.current = all.CurrentContext
	return f, all, nil
}

// writeKubeconfig adds the server to the file. Other clusters in the file remain. While the file
// holds the token, only its owner can read it.
func writeKubeconfig(path string, l *apiserver.Listener) (*kubeconfig, error) {
	f, all, err := readKubeconfig(path)
	if err != nil {
		return nil, err
	}
	added := l.Kubeconfig(contextName)
	all.Clusters[contextName] = added.Clusters[contextName]
	all.AuthInfos[contextName] = added.AuthInfos[contextName]
	all.Contexts[contextName] = added.Contexts[contextName]
	all.CurrentContext = contextName
	f.server = added.Clusters[contextName].Server
	if f.written, err = encodeKubeconfig(all); err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755) // as kubectl does
	}
	if err == nil {
		err = cli.WriteFile(path, f.written, f.mode&kubeconfigMode)
	}
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return f, nil
}

// restore removes the server from the file. An otherwise unchanged file gets its previous content
// and mode, or is removed if it did not exist.
func (f *kubeconfig) restore() error {
	content, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
	case !bytes.Equal(content, f.written):
		err = f.remove(content)
	case f.existed:
		err = cli.WriteFile(f.path, f.content, f.mode)
	default:
		err = os.Remove(f.path)
	}
	if err != nil {
		return fmt.Errorf("restore kubeconfig: %w", err)
	}
	return nil
}

// remove removes the server's entries from a file with other changes.
func (f *kubeconfig) remove(content []byte) error {
	all, err := clientcmd.Load(content)
	if err != nil {
		return err
	}
	if c := all.Clusters[contextName]; c != nil && c.Server != f.server {
		return nil // of a server that was started later
	}
	delete(all.Clusters, contextName)
	delete(all.AuthInfos, contextName)
	delete(all.Contexts, contextName)
	if !f.existed && len(all.Clusters)+len(all.AuthInfos)+len(all.Contexts) == 0 {
		return os.Remove(f.path)
	}
	if all.CurrentContext == contextName {
		all.CurrentContext = ""
		if _, ok := all.Contexts[f.current]; ok {
			all.CurrentContext = f.current
		}
	}
	if content, err = encodeKubeconfig(all); err != nil {
		return err
	}
	return cli.WriteFile(f.path, content, f.mode)
}

// encodeKubeconfig returns the text of a kubeconfig. Unlike clientcmd.Write it writes an empty list
// as one, and not as null.
func encodeKubeconfig(all *clientcmdapi.Config) ([]byte, error) {
	v1 := clientcmdv1.Config{}
	if err := clientcmdlatest.Scheme.Convert(all, &v1, nil); err != nil {
		return nil, err
	}
	v1.APIVersion, v1.Kind = clientcmdlatest.Version, "Config"
	if v1.Clusters == nil {
		v1.Clusters = []clientcmdv1.NamedCluster{}
	}
	if v1.Contexts == nil {
		v1.Contexts = []clientcmdv1.NamedContext{}
	}
	if v1.AuthInfos == nil {
		v1.AuthInfos = []clientcmdv1.NamedAuthInfo{}
	}
	return yaml.Marshal(v1)
}
