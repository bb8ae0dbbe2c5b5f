"""The files of examples/clusters: their form, and runs with the variables and commands of each scheduler faked."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CLUSTERS = Path(__file__).parents[2] / "examples" / "clusters"
ENV = {**os.environ, "XLA_FLAGS": "", "LAMINA_CACHE": "0"}

# Starts two tasks of one node with the variables of SLURM, and passes signals on, as `srun` does
SRUN = f"""#!{sys.executable}
import os, signal, subprocess, sys
command = [sys.executable, *sys.argv[3:]]
assert sys.argv[1:3] == ["--kill-on-bad-exit=1", "python"], sys.argv
tasks = [subprocess.Popen(command, env={{**os.environ, "SLURM_STEP_ID": os.environ["STEP"], "SLURM_STEP_NODELIST": "node01",
         "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(r), "SLURM_LOCALID": str(r)}})
         for r in range(2)]
signal.signal(signal.SIGUSR1, lambda *_: [t.send_signal(signal.SIGUSR1) for t in tasks])
sys.exit(max(t.wait() for t in tasks))
"""


@pytest.mark.parametrize("name", ["slurm.sbatch", "torchrun.sh"])
def test_scripts_are_valid_bash(name):
    done = subprocess.run(["bash", "-n", CLUSTERS / name], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr


def test_options_of_the_batch_script_are_those_of_sbatch():
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", (CLUSTERS / "slurm.sbatch").read_text(), re.M))
    assert options == {"job-name": "train", "nodes": "2", "ntasks-per-node": "2", "time": "04:00:00", "requeue": "",
                       "open-mode": "append", "signal": "B:USR1@300"}


@pytest.mark.slow
def test_batch_script_saves_before_the_time_limit_and_queues_the_job_again(tmp_path):
    for name, text in (("srun", SRUN), ("scontrol", f'#!/bin/bash\necho "$@" >> "{tmp_path}/requeued"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = {**ENV, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": str(os.getpid())}
    folder = tmp_path / "checkpoints"

    def start(number, *more):
        return subprocess.Popen(["bash", CLUSTERS / "slurm.sbatch", CLUSTERS / "train.py", folder, "--every", "5", *more],
                                env={**env, "STEP": str(number)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    job = start(0, "--steps", "100000", "--pause", "0.02")
    try:
        end = time.monotonic() + 60
        while not list(folder.glob("*.json")):
            assert time.monotonic() < end and job.poll() is None
            time.sleep(0.05)
        job.send_signal(signal.SIGUSR1)
        text = job.communicate(timeout=60)[0]
    finally:
        job.kill()
    saved = {int(n) for n in re.findall(r"saved step (\d+) of 100000", text)}
    assert job.returncode == 0 and len(saved) == 1 and max(saved) >= 5, text  # both processes saved the same step
    assert (tmp_path / "requeued").read_text() == f"requeue {os.getpid()}\n"
    last = saved.pop()
    job = start(1, "--steps", str(last + 3))
    text = job.communicate(timeout=60)[0]
    assert job.returncode == 0 and text.count(f"from step {last}\n") == 2, text
    assert text.count(f"saved step {last + 3} of {last + 3}") == 2, text
    assert (tmp_path / "requeued").read_text().count("requeue") == 1  # it was done


# The documented fields of each object: name -> whether it is required
FIELDS = {
    "Service": {"apiVersion": True, "kind": True, "metadata": True, "spec": True},
    "Service.spec": {"clusterIP": True, "publishNotReadyAddresses": True, "selector": True, "ports": False},
    "Job": {"apiVersion": True, "kind": True, "metadata": True, "spec": True},
    "Job.spec": {"completionMode": True, "completions": True, "parallelism": True, "template": True, "backoffLimit": False,
                 "activeDeadlineSeconds": False, "ttlSecondsAfterFinished": False, "podFailurePolicy": False},
    "JobSet": {"apiVersion": True, "kind": True, "metadata": True, "spec": True},
    "JobSet.spec": {"replicatedJobs": True, "network": False, "failurePolicy": False, "successPolicy": False,
                    "startupPolicy": False, "suspend": False, "ttlSecondsAfterFinished": False, "coordinator": False},
    "JobSet.network": {"enableDNSHostnames": False, "subdomain": False, "publishNotReadyAddresses": False},
    "JobSet.failurePolicy": {"maxRestarts": False, "rules": False, "restartStrategy": False},
    "JobSet.replicatedJob": {"name": True, "replicas": False, "template": True, "dependsOn": False, "groupName": False},
    "pod": {"subdomain": False, "restartPolicy": True, "containers": True, "volumes": False,
            "terminationGracePeriodSeconds": False, "nodeSelector": False, "tolerations": False},
    "container": {"name": True, "image": True, "command": False, "args": False, "env": False, "resources": False,
                  "livenessProbe": False, "readinessProbe": False, "volumeMounts": False},
    "probe": {"exec": True, "initialDelaySeconds": False, "periodSeconds": False, "timeoutSeconds": False,
              "failureThreshold": False},
}


def check_fields(kind, found):
    known = FIELDS[kind]
    assert not found.keys() - known.keys() and all(name in found for name, needed in known.items() if needed), (kind, found)
    return found


def test_job_has_the_documented_fields():
    yaml = pytest.importorskip("yaml")
    service, job = yaml.safe_load_all((CLUSTERS / "kubernetes-job.yaml").read_text())
    assert (service["apiVersion"], service["kind"], job["apiVersion"], job["kind"]) == ("v1", "Service", "batch/v1", "Job")
    service, spec = check_fields("Service", service), check_fields("Job", job)["spec"]
    check_fields("Job.spec", spec)
    pod = check_fields("pod", spec["template"]["spec"])
    headless = check_fields("Service.spec", service["spec"])
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"] is True
    labels = spec["template"]["metadata"]["labels"]
    assert headless["selector"].items() <= labels.items() and pod.get("subdomain") == service["metadata"]["name"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    assert pod["restartPolicy"] in ("Never", "OnFailure")  # a Job allows no other
    check_pod(spec, pod)


def test_job_set_has_the_documented_fields():
    """The names of https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2."""
    yaml = pytest.importorskip("yaml")
    found = check_fields("JobSet", yaml.safe_load((CLUSTERS / "kubernetes-jobset.yaml").read_text()))
    assert (found["apiVersion"], found["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    spec = check_fields("JobSet.spec", found["spec"])
    assert check_fields("JobSet.network", spec["network"]) == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert check_fields("JobSet.failurePolicy", spec["failurePolicy"])["maxRestarts"] > 0
    (replicated,) = [check_fields("JobSet.replicatedJob", r) for r in spec["replicatedJobs"]]
    assert replicated["replicas"] == 1 and replicated["template"].keys() == {"spec"}
    job = check_fields("Job.spec", replicated["template"]["spec"])
    assert job["completionMode"] == "Indexed" and job["completions"] == job["parallelism"] and job["backoffLimit"] == 0
    pod = check_fields("pod", job["template"]["spec"])
    assert pod["restartPolicy"] == "Never" and "subdomain" not in pod  # JobSet sets the subdomain
    check_pod(job, pod)


def test_pod_of_a_job_set_finds_its_coordinator(monkeypatch):
    """The name of a pod is <job set>-<replicated job>-<job index>-<pod index>.<job set>."""
    from lamina_distributed._rendezvous import cluster_env
    monkeypatch.setattr(cluster_env.socket, "getfqdn", lambda: "train-workers-0-3.train.default.svc.cluster.local")
    found, _ = cluster_env.detect(None, None, None, None, {"JOB_COMPLETION_INDEX": "3", "LAMINA_NUM_PROCESSES": "4"})
    assert found.address == "train-workers-0-0.train.default.svc.cluster.local:8476"
    assert (found.rank, found.count) == (3, 4) and found.job


def check_pod(spec, pod):
    """Check the container of the program, for a Job with this specification."""
    (container,) = [check_fields("container", c) for c in pod["containers"]]
    env = {e["name"]: e.get("value") for e in container["env"]}
    assert all(v is None or type(v) is str for v in env.values()) and all(type(c) is str for c in container["command"])
    assert env["LAMINA_NUM_PROCESSES"] == str(spec["completions"]) and "LAMINA_TOKEN" in env
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        (*_, code) = check_fields("probe", container[probe])["exec"]["command"]
        compile(code, probe, "exec")
        assert f"127.0.0.1:{env['LAMINA_HEALTH_PORT']}{path}" in code


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("torchrun") is None, reason="torchrun is not installed")
def test_torchrun_starts_the_processes(tmp_path):
    env = {**ENV, "PROCESSES": "2"}
    done = subprocess.run(["bash", CLUSTERS / "torchrun.sh", CLUSTERS / "train.py", tmp_path / "c", "--steps", "5"], env=env,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("saved step 5 of 5: [0.614") == 2, done.stdout + done.stderr
