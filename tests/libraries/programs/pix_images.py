"""Change images: filters, colours, geometry and metrics."""
import dm_pix as pix
import jax
from _report import show

image = jax.random.uniform(jax.random.PRNGKey(0), (12, 12, 3))
blurred = jax.jit(lambda x: pix.gaussian_blur(x, 1.0, 3))(image)
turned = pix.rotate(image, 0.3)
cropped = pix.random_crop(jax.random.PRNGKey(1), image, (6, 6, 3))
hsv = pix.rgb_to_hsv(image)
bright = pix.random_brightness(jax.random.PRNGKey(2), image, 0.2)
show(blurred=blurred, turned=turned[4], cropped=cropped, hsv=hsv, back=pix.hsv_to_rgb(hsv), bright=bright,
     psnr=pix.psnr(image, blurred), ssim=pix.ssim(image, blurred), contrast=pix.adjust_contrast(image, 0.5))
