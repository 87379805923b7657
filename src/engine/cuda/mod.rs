//! Looks for NVIDIA drivers and devices. Kernels are not here yet, so no device is offered as available.

use super::EngineInfo;
use crate::units::Bytes;
use cudarc::driver::{CudaContext, sys};

const NO_DRIVER: &str = "no NVIDIA driver found: libcuda (nvcuda on Windows) is not installed or has no device; the CPU engine runs everywhere";
const NO_KERNELS: &str =
    "this build has no CUDA kernels yet: plan for the card here and run with --engine cpu";

/// The CUDA devices, or one entry that says why there is none. Never panics: cudarc does when libcuda is missing, so that is asked first.
pub fn probe() -> Vec<EngineInfo> {
    if !is_driver_present() {
        return vec![absent(NO_DRIVER.to_owned())];
    }
    // A broken driver may lack entry points, which also panics inside the library.
    let found = std::panic::catch_unwind(devices);
    match found {
        Ok(Ok(devices)) if !devices.is_empty() => devices,
        Ok(Ok(_)) => vec![absent("an NVIDIA driver is installed, but it lists no device; check that the card is seated and not given to another program".to_owned())],
        Ok(Err(reason)) => vec![absent(format!("an NVIDIA driver is installed, but it answers: {reason}; reinstall or update it"))],
        Err(_) => vec![absent("an NVIDIA driver is installed, but it is older than CUDA 12.0; update it".to_owned())],
    }
}

#[expect(unsafe_code, reason = "the library offers this probe only as unsafe")]
fn is_driver_present() -> bool {
    // SAFETY: opens and closes the driver library, whose initialisers are the vendor's own; nothing is called in it.
    unsafe { sys::is_culib_present() }
}

fn absent(reason: String) -> EngineInfo {
    EngineInfo {
        id: "cuda".to_owned(),
        available: false,
        reason: Some(reason),
        device: None,
        total: None,
        free: None,
    }
}

fn devices() -> Result<Vec<EngineInfo>, String> {
    let count = CudaContext::device_count().map_err(|e| e.to_string())?;
    (0..usize::try_from(count).unwrap_or(0))
        .map(|i| {
            let ctx = CudaContext::new(i).map_err(|e| e.to_string())?;
            let (free, total) = ctx.mem_get_info().map_err(|e| e.to_string())?;
            Ok(EngineInfo {
                id: format!("cuda:{i}"),
                available: false,
                reason: Some(NO_KERNELS.to_owned()),
                device: Some(ctx.name().map_err(|e| e.to_string())?),
                total: Some(Bytes(total as u64)),
                free: Some(Bytes(free as u64)),
            })
        })
        .collect()
}
