package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/volsim/volsim/fake/apiserver"
)

// contextName is the name of the cluster, user and context in the kubeconfig.
const contextName = "volsim"

// A kubeconfig is a file that was written, with its previous state.
type kubeconfig struct {
	path    string
	made    bool   // it did not exist
	current string // previous current context
}

// writeKubeconfig adds the server to the file. Other clusters in the file remain.
func writeKubeconfig(path string, l *apiserver.Listener) (*kubeconfig, error) {
	f := &kubeconfig{path: path}
	all, err := clientcmd.LoadFromFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.made = true
		all = clientcmdapi.NewConfig()
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	f.current = all.CurrentContext
	added := l.Kubeconfig(contextName)
	all.Clusters[contextName] = added.Clusters[contextName]
	all.AuthInfos[contextName] = added.AuthInfos[contextName]
	all.Contexts[contextName] = added.Contexts[contextName]
	all.CurrentContext = contextName
	if err := clientcmd.WriteToFile(*all, path); err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return f, nil
}

// restore removes the added entries, and the file if it did not exist before.
func (f *kubeconfig) restore() error {
	all, err := clientcmd.LoadFromFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore kubeconfig: %w", err)
	}
	delete(all.Clusters, contextName)
	delete(all.AuthInfos, contextName)
	delete(all.Contexts, contextName)
	if f.made && len(all.Clusters)+len(all.AuthInfos)+len(all.Contexts) == 0 {
		return os.Remove(f.path)
	}
	if all.CurrentContext == contextName {
		all.CurrentContext = ""
		if _, ok := all.Contexts[f.current]; ok {
			all.CurrentContext = f.current
		}
	}
	if err := clientcmd.WriteToFile(*all, f.path); err != nil {
		return fmt.Errorf("restore kubeconfig: %w", err)
	}
	return nil
}
