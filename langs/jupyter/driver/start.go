package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandgate/sandgate/protocol/message"
)

const (
	// startLimit bounds the start of a kernel. The agent's own limit is a little longer.
	startLimit = 55 * time.Second
	// asking is the time between two requests to a kernel that does not yet publish.
	asking = 200 * time.Millisecond
)

// kernelInfo is the content of a kernel_info_reply.
type kernelInfo struct {
	Implementation        string `json:"implementation"`
	ImplementationVersion string `json:"implementation_version"`
	Banner                string `json:"banner"`
	Language              struct {
		Name      string `json:"name"`
		Version   string `json:"version"`
		MIMEType  string `json:"mimetype"`
		Extension string `json:"file_extension"`
	} `json:"language_info"`
}

// start starts the kernel and reports that it is ready.
func (d *driver) start(language, folder string) error {
	spec, err := readSpec(folder)
	if err != nil {
		return err
	}
	d.spec = spec
	info, err := d.startKernel()
	if err != nil {
		return err
	}
	d.language = info.Language.Name
	ready := message.Info{
		Language: language, Version: info.Language.Version,
		Implementation: info.Implementation + " " + info.ImplementationVersion,
		FileExtension:  info.Language.Extension, MIMEType: info.Language.MIMEType,
		Banner: info.Banner, PID: d.process.cmd.Process.Pid,
	}
	d.sendReply(message.Reply{Op: "ready", Info: &ready})
	return nil
}

// startKernel starts a kernel and connects to it.
func (d *driver) startKernel() (info kernelInfo, err error) {
	until := time.Now().Add(startLimit)
	sockets, err := d.launch(true, time.Now().Add(ipcPatience))
	if err != nil { // a kernel may not know Unix sockets
		if sockets, err = d.launch(false, until); err != nil {
			return info, err
		}
	}
	for c, s := range sockets {
		if c := channel(c); c != heartbeat {
			d.links[c] = open(d.process, c, d.wire.session, s, d.arrivals)
		}
	}
	if info, err = d.greet(until); err != nil {
		d.process.kill()
		return info, err
	}
	d.process.words.ready()
	return info, nil
}

// replace starts another kernel after a cell that asked the kernel to exit, and answers the cell.
func (d *driver) replace() error {
	r, cell := d.exiting, d.exitingCell
	d.exiting = nil
	d.dismiss()
	if state := d.process.cmd.ProcessState; state.ExitCode() > 0 {
		*r.ExitCode = state.ExitCode()
	}
	_ = os.RemoveAll(d.process.dir)
	for id := range d.pending {
		d.answer(id, refusal("KernelExited", "the kernel has exited"))
	}
	clear(d.comms)
	if _, err := d.startKernel(); err != nil {
		return err
	}
	content, _ := json.Marshal(message.KernelEvent{
		Event: "state_lost", Message: "the code ended the kernel; its variables are lost",
	})
	d.sendMessage(cell, message.KernelEventType, content)
	d.sendReply(*r)
	d.nextCell()
	return nil
}

// launch starts the process and connects to its channels. The heartbeat shows that the kernel
// answers; it is not used later, because a process that ends is noticed anyway, and kernels with
// one thread do not answer while a cell runs.
func (d *driver) launch(ipc bool, until time.Time) (sockets [channels]*socket, err error) {
	p, err := startProcess(d.spec, ipc)
	if err != nil {
		return sockets, err
	}
	d.process = p
	d.wire.key = []byte(p.key)
	defer func() {
		if err != nil {
			for _, s := range sockets {
				if s != nil {
					s.close()
				}
			}
			p.kill()
		}
	}()
	for c := range channels {
		if sockets[c], err = p.connect(c, d.wire.session, until); err != nil {
			return sockets, err
		}
	}
	hb := sockets[heartbeat]
	defer hb.close()
	if err = hb.conn.SetDeadline(until); err != nil {
		return sockets, err
	}
	if err = hb.write(encodeParts([][]byte{nil, []byte("ping")})); err != nil {
		return sockets, err
	}
	_, err = hb.receive()
	return sockets, err
}

// greet asks the kernel about itself until it has answered and its output arrives, too: output
// that a kernel publishes before it knows of the subscription is lost.
func (d *driver) greet(until time.Time) (info kernelInfo, err error) {
	var answered, published bool
	ticker := time.NewTicker(asking)
	defer ticker.Stop()
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	ask := func() {
		d.request(shell, "kernel_info_request", 0, struct{}{}, func(content json.RawMessage) {
			if json.Unmarshal(content, &info) == nil {
				answered = true
			}
		})
	}
	ask()
	for !answered || !published || len(d.pending) > 0 {
		select {
		case a := <-d.arrivals:
			published = published || a.channel == iopub && a.err == nil && !a.again
			d.arrive(a)
		case <-ticker.C:
			if answered && !published {
				ask()
			}
		case <-d.process.exited:
			return info, d.process.death()
		case <-limit.C:
			return info, errors.New(fmt.Sprint("the kernel did not answer within ", startLimit))
		}
	}
	return info, nil
}
