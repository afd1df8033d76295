package array

import "github.com/volsim/volsim/plugins/nodefs"

// Volume returns one volume like Volumes, but without its Hash: no content is read. It may be
// called at any time.
func (a *Array) Volume(id string) (Volume, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.volumes[id]
	if v == nil {
		return Volume{}, false
	}
	return Volume{
		ID: v.id, Name: v.name, SizeBytes: v.sizeBytes, FSBytes: v.fsBytes, SourceID: v.source, AttachedTo: v.nodes(), Settings: v.settings,
	}, true
}

// IDs returns the IDs of all volumes, sorted. It may be called at any time.
func (a *Array) IDs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ids()
}

// Files returns the paths of the files in a volume, relative to its root and sorted, or nil if the
// volume does not exist. It may be called at any time.
func (a *Array) Files(id string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.volumes[id]
	if v == nil {
		return nil
	}
	return v.tree.Files()
}

// Owners returns the owner and mode of every file and directory of a volume, by path relative to
// its root, which is ".". It returns nil if the volume does not exist. It may be called at any
// time.
func (a *Array) Owners(id string) map[string]nodefs.Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.volumes[id]
	if v == nil {
		return nil
	}
	return v.tree.Owners()
}
