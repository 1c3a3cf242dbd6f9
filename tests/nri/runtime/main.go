// The runtime side of NRI, as containerd and CRI-O have it (github.com/containerd/nri/pkg/adaptation), with containers that exist only
// here. It reads a command per line and answers each with a line, both JSON. It ends with its standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// What is asked for. The fields that a command does not need are empty.
type command struct {
	// have: a container that runs; listen; create, update, remove: a container; beside: another plugin.
	Do string
	// The container, and its CPUs.
	ID, CPUs string
	// Bytes of annotations of the container.
	Bytes int
	// Another plugin's place among all, what it sets, and how long it takes for that.
	Index, Mems  string
	Shares       uint64
	Milliseconds int
}

// The result. The values are those of the container after all plugins have adjusted it.
type answer struct {
	Error  string `json:"error"`
	Mems   string `json:"mems"`
	Shares uint64 `json:"shares"`
}

type runtime struct {
	socket string
	nri    *adaptation.Adaptation
	// Held during each command and each synchronization, as by containerd and CRI-O.
	lock       sync.Mutex
	containers map[string]*api.Container
}

// Each container has a pod of its own. With few pods and more containers than fit into a message, the library sends messages without
// end: it rounds the number of pods for each to 0 (recalcObjsPerSyncMsg in pkg/adaptation/plugin.go).
func podOf(id string) *api.PodSandbox {
	return &api.PodSandbox{
		Id: "pod-" + id, Name: id, Uid: "uid-" + id, Namespace: "default", Linux: &api.LinuxPodSandbox{},
	}
}

func container(c command, state api.ContainerState) *api.Container {
	return &api.Container{
		Id: c.ID, PodSandboxId: podOf(c.ID).Id, Name: "main", State: state, Pid: 4711,
		Annotations: map[string]string{"example.com/large": strings.Repeat("x", c.Bytes)},
		Linux: &api.LinuxContainer{
			CgroupsPath: "/kubepods/" + c.ID,
			Resources:   &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: c.CPUs}},
		},
	}
}

func (r *runtime) listen() error {
	synchronize := func(ctx context.Context, call adaptation.SyncCB) error {
		r.lock.Lock()
		defer r.lock.Unlock()
		var pods []*api.PodSandbox
		var all []*api.Container
		for id, container := range r.containers {
			pods, all = append(pods, podOf(id)), append(all, container)
		}
		_, err := call(ctx, pods, all)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
		return nil, fmt.Errorf("no plugin asks for this")
	}
	directory := r.socket + ".plugins"
	var err error
	r.nri, err = adaptation.New("numaloc-tests", "v0", synchronize, update,
		adaptation.WithSocketPath(r.socket), adaptation.WithPluginPath(directory), adaptation.WithPluginConfigPath(directory))
	if err != nil {
		return err
	}
	return r.nri.Start()
}

// A container is created and started. It stays unknown if a plugin has refused that.
func (r *runtime) create(c command) (result answer, err error) {
	ctx, pod, container := context.Background(), podOf(c.ID), container(c, api.ContainerState_CONTAINER_CREATED)
	response, err := r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: container})
	if err != nil {
		return result, err
	}
	adjusted := response.GetAdjust().GetLinux().GetResources().GetCpu()
	cpu := container.Linux.Resources.Cpu
	if adjusted.GetMems() != "" {
		cpu.Mems = adjusted.GetMems()
	}
	if adjusted.GetShares() != nil {
		cpu.Shares = adjusted.GetShares()
	}
	if err = r.nri.PostCreateContainer(ctx, &adaptation.PostCreateContainerRequest{Pod: pod, Container: container}); err != nil {
		return result, err
	}
	if err = r.nri.StartContainer(ctx, &adaptation.StartContainerRequest{Pod: pod, Container: container}); err != nil {
		return result, err
	}
	container.State = api.ContainerState_CONTAINER_RUNNING
	r.containers[c.ID] = container
	result = answer{Mems: cpu.Mems, Shares: cpu.GetShares().GetValue()}
	return result, r.nri.PostStartContainer(ctx, &adaptation.PostStartContainerRequest{Pod: pod, Container: container})
}

// A container gets other CPUs.
func (r *runtime) update(c command) (result answer, err error) {
	ctx, pod, container := context.Background(), podOf(c.ID), r.containers[c.ID]
	request := &api.UpdateContainerRequest{
		Pod: pod, Container: container,
		LinuxResources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: c.CPUs}},
	}
	response, err := r.nri.UpdateContainer(ctx, request)
	if err != nil {
		return result, err
	}
	cpu := container.Linux.Resources.Cpu
	cpu.Cpus = c.CPUs
	for _, update := range response.GetUpdate() {
		if mems := update.GetLinux().GetResources().GetCpu().GetMems(); update.GetContainerId() == c.ID && mems != "" {
			cpu.Mems = mems
		}
	}
	result = answer{Mems: cpu.Mems}
	return result, r.nri.PostUpdateContainer(ctx, &adaptation.PostUpdateContainerRequest{Pod: pod, Container: container})
}

// A container stops and goes.
func (r *runtime) remove(c command) error {
	ctx, pod, container := context.Background(), podOf(c.ID), r.containers[c.ID]
	container.State = api.ContainerState_CONTAINER_STOPPED
	delete(r.containers, c.ID)
	if _, err := r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: container}); err != nil {
		return err
	}
	return r.nri.RemoveContainer(ctx, &adaptation.RemoveContainerRequest{Pod: pod, Container: container})
}

// Another plugin, written with NRI's own library. It takes part from its first synchronization on.
type beside struct {
	command
	ready chan struct{}
	once  sync.Once
}

func (b *beside) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	b.once.Do(func() { close(b.ready) })
	return nil, nil
}

func (b *beside) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	time.Sleep(time.Duration(b.Milliseconds) * time.Millisecond)
	adjustment := &api.ContainerAdjustment{}
	if b.Shares != 0 {
		adjustment.SetLinuxCPUShares(b.Shares)
	}
	if b.Mems != "" {
		adjustment.SetLinuxCPUSetMems(b.Mems)
	}
	return adjustment, nil, nil
}

func (r *runtime) beside(c command) error {
	plugin := &beside{command: c, ready: make(chan struct{})}
	// Without WithOnClose the library ends the process when the runtime drops the plugin.
	other, err := stub.New(plugin, stub.WithPluginName("beside"), stub.WithPluginIdx(c.Index),
		stub.WithSocketPath(r.socket), stub.WithOnClose(func() {}))
	if err != nil {
		return err
	}
	if err = other.Start(context.Background()); err != nil {
		return err
	}
	<-plugin.ready
	return nil
}

func (r *runtime) do(c command) (answer, error) {
	// They wait for synchronizations.
	switch c.Do {
	case "listen":
		return answer{}, r.listen()
	case "beside":
		return answer{}, r.beside(c)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	switch c.Do {
	case "have":
		r.containers[c.ID] = container(c, api.ContainerState_CONTAINER_RUNNING)
		return answer{}, nil
	case "create":
		return r.create(c)
	case "update":
		return r.update(c)
	case "remove":
		return answer{}, r.remove(c)
	}
	return answer{}, fmt.Errorf("unknown command %q", c.Do)
}

func main() {
	r := &runtime{socket: os.Args[1], containers: map[string]*api.Container{}}
	lines, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		result, err := r.do(c)
		if err != nil {
			result.Error = err.Error()
		}
		if answers.Encode(result) != nil {
			return
		}
	}
}
